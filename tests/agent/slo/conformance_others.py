"""The same outages to the rules that Sloth and Pyrra render, run by promtool: from when to when their pages fire.

The rule files are built here from the forms both document: Sloth, examples/_gen/getting-started.yml (v0.16: ratio
recordings per window, both pairs in one page alert, no `for`); Pyrra, its generic rules for 28 days (slo/rules.go:
burnrate recordings, factors 14 and 7, `for` of 2m and 15m). Not copied: names and layout are ours.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from conformance_row import Row
from conformance_world import HOUR, T0, Story

from agent.burn_windows import standard_pairs

STEP = 15
OUTAGES = [(0.999, 1.0, 600), (0.99, 1.0, 1800), (0.99, 0.5, 3600), (0.999, 0.1, 1800)]  # objective, bad share, seconds
BEFORE = 7 * HOUR  # of good traffic
AFTER = 2 * HOUR
FIRED = re.compile(r"alertname: (\w+), time: ([\dhms]+)")


def pages() -> Iterator[Row]:
    """First and last firing evaluation of the page alerts, in seconds after the onset, 15 s apart."""
    for objective, share, seconds in OUTAGES:
        wanted, ours = _expected(objective, share, seconds), _ours(objective, share, seconds)
        other = "promtool is not installed"
        if shutil.which("promtool"):
            sloth, pyrra = (_promtool(rules(objective), share, seconds) for rules in (_sloth, _pyrra))
            other = f"Sloth: {_span(sloth, '')}; Pyrra: {_span(pyrra, 'fast')}, {_span(pyrra, 'slow')}"
        case = f"{objective:.1%}, {share:.0%} bad for {seconds} s: page pairs fire from..to"
        yield Row("A", case, wanted, ours, wanted == ours, other)


def _expected(objective: float, share: float, seconds: float) -> str:
    """L F b / e after the onset, until S (1 - F b / e) after the end, on the grid; equality does not fire."""
    words = []
    for pair in standard_pairs(30 * 86_400.0)[:2]:
        threshold = round(pair.factor * (1 - objective), 9)
        first = int(pair.long_seconds * threshold / share // STEP + 1) * STEP
        end = seconds + pair.short_seconds * (1 - threshold / share)
        last = -int(-end // STEP) * STEP - STEP
        words.append(f"{first}..{last}" if share > threshold and first <= last else "never")
    return ", ".join(words)


def _ours(objective: float, share: float, seconds: float) -> str:
    story, fired = Story(objective, T0 - 7 * HOUR).serve(7 * HOUR, 1000), {"page/fast": [], "page/slow": []}
    for at in range(STEP, int(seconds + AFTER), STEP):
        story.serve(STEP, 1000, share if at <= seconds else 0.0).status()
        for name in story.firing() & fired.keys():
            fired[name].append(at)
    return ", ".join(_span({"": times}, "") for times in fired.values())


def _span(fired: dict[str, list[int]], name: str) -> str:
    times = fired.get(name, [])
    return f"{times[0]}..{times[-1]}" if times else "never"


def _sloth(objective: float) -> list[dict[str, Any]]:
    """Both page pairs are one alert: which of them fired cannot be told."""
    budget = 1 - objective
    ratio = "(sum(rate(errors_total[{0}]))) / (sum(rate(events_total[{0}])))"
    recordings = [
        {
            "record": f"slo:sli_error:ratio_rate{window}",
            "expr": ratio.format(window),
            "labels": {"sloth_window": window},
        }
        for window in ("5m", "30m", "1h", "6h")
    ]

    def pair(short: str, long: str, factor: float) -> str:
        sides = (
            f"max(slo:sli_error:ratio_rate{w} > ({factor} * {budget})) without (sloth_window)" for w in (short, long)
        )
        return f"({' and '.join(sides)})"

    return [*recordings, {"alert": "page", "expr": f"{pair('5m', '1h', 14.4)} or {pair('30m', '6h', 6)}"}]


def _pyrra(objective: float) -> list[dict[str, Any]]:
    rate = "sum(rate(errors_total[{0}])) / sum(rate(events_total[{0}]))"
    recordings = [{"record": f"e:burnrate{w}", "expr": rate.format(w)} for w in ("5m", "30m", "1h", "6h")]

    def alert(name: str, short: str, long: str, factor: int, patience: str) -> dict[str, Any]:
        limit = f"({factor} * (1-{objective}))"
        return {"alert": name, "expr": f"e:burnrate{short} > {limit} and e:burnrate{long} > {limit}", "for": patience}

    return [*recordings, alert("fast", "5m", "1h", 14, "2m"), alert("slow", "30m", "6h", 7, "15m")]


def _promtool(rules: list[dict[str, Any]], share: float, seconds: float) -> dict[str, list[int]]:
    """Every evaluation at which an alert fired: promtool is told to expect none, and names those that do."""
    bad, steps = 1000 * STEP * share, int(BEFORE / STEP)
    outage, after = int(seconds / STEP), int(AFTER / STEP)
    series = [
        {"series": "events_total", "values": f"0+{1000 * STEP}x{steps + outage + after}"},
        {"series": "errors_total", "values": f"0x{steps - 1} 0+{bad}x{outage} {bad * outage}x{after}"},
    ]
    names = [str(rule["alert"]) for rule in rules if "alert" in rule]
    asked = [
        {"eval_time": f"{int(BEFORE) + at}s", "alertname": name, "exp_alerts": []}
        for at in range(0, int(seconds + AFTER), STEP)
        for name in names
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}))
        test = {"interval": f"{STEP}s", "input_series": series, "alert_rule_test": asked}
        document = {"rule_files": ["rules.yaml"], "evaluation_interval": f"{STEP}s", "tests": [test]}
        (path / "test.yaml").write_text(yaml.safe_dump(document))
        command = ["promtool", "test", "rules", str(path / "test.yaml")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    fired: dict[str, list[int]] = {name: [] for name in names}
    for name, time in FIRED.findall(ended.stdout + ended.stderr):
        fired[name].append(int(_seconds(time) - BEFORE))
    return {"": fired["page"]} if "page" in fired else fired


def _seconds(time: str) -> int:
    """Of 7h2m15s."""
    return sum(int(number) * {"h": 3600, "m": 60, "s": 1}[unit] for number, unit in re.findall(r"(\d+)([hms])", time))
