"""The same samples to both: our evaluation of a recording, and a real Prometheus with the rules that we render.

Both are asked at the moments of the scrapes, where neither has to guess what lies between two of them; so their ratios
must be equal to rounding. The volume gate and the hysteresis are off: rules have no memory of an alert's end.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from live_figures import tell
from live_history import (
    DAY,
    RECORDING,
    SCRAPE_SECONDS,
    T0,
    HistoryServer,
    Rules,
    needs_h200,
    write_month,
    write_openmetrics,
)

from agent.cli import main
from agent.config import Config
from agent.config_file import parse_config
from agent.model import Counts
from agent.render.promql import duration
from agent.render.rules import render_rules
from agent.replay import Replay
from probes.recording import EntryReader, RecordingWriter, read_entries

pytestmark = pytest.mark.real
DAYS, GRID = 30.0, 300.0
CONFIG = """
tick_seconds: 60
scrape: {interval_seconds: 60, down_after_seconds: 180}
canaries: []
gpu: {enabled: "no"}
targets: [{name: vllm-0, url: "http://vllm-0:8000"}]
burn: {volume_gate: false, calm_windows: 0}
slos:
  - {name: ttft, service: chat, sli: ttft, threshold_seconds: 2.5, objective_ratio: 0.99}
  - {name: tpot, service: chat, sli: tpot, threshold_seconds: 0.05, objective_ratio: 0.95}
  - {name: e2e, service: chat, sli: e2e, threshold_seconds: 10, objective_ratio: 0.999}
"""
Spans = dict[tuple[str, str], list[tuple[float, float]]]  # (slo, severity/tier): first and last firing evaluation


@dataclass(slots=True)
class Ours:
    """What our evaluation said: error ratios by (slo, window) and moment of the grid, and when alerts fired."""

    ratios: dict[tuple[str, str], dict[float, float]] = field(default_factory=lambda: defaultdict(dict))
    fired: Spans = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True, slots=True)
class Month:
    """One month, in both."""

    config: Config
    recording: Path
    server: HistoryServer


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Month]:
    folder = tmp_path_factory.mktemp("history")
    write_month(folder / "month.jsonl.gz", DAYS)
    write_openmetrics(folder / "month.jsonl.gz", folder / "month.txt")
    server = HistoryServer(folder)
    server.load(folder / "month.txt")
    server.restart()
    (folder / "agent.yaml").write_text(CONFIG)
    try:
        yield Month(parse_config(CONFIG, "agent.yaml"), folder / "month.jsonl.gz", server)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def ours(month: Month) -> Ours:
    """A tick at each scrape."""
    course, found = Replay(month.recording, month.config).course, Ours()
    reader = EntryReader()
    for entry in read_entries(month.recording):
        for effects in course.go_to(entry.at_seconds):
            for alert in effects.changed_alerts:
                labels = dict(alert.labels)
                if alert.name == "SLOBurnRate" and alert.ends_at_seconds is not None:
                    key = (labels["slo"], f"{labels['severity']}/{labels['tier']}")
                    found.fired[key].append((alert.starts_at_seconds, alert.ends_at_seconds - SCRAPE_SECONDS))
        if course.last is not None and (at := course.last.snapshot.at_seconds) % GRID == 0:
            for status in course.last.snapshot.slos:
                for burn in status.burns:
                    for seconds, counts in (
                        (burn.pair.short_seconds, burn.short_counts),
                        (burn.pair.long_seconds, burn.long_counts),
                    ):
                        found.ratios[status.slo.name, duration(seconds)][at] = ratio(counts)
        seen = reader.read(entry)
        assert seen is not None
        course.take(seen, entry.at_seconds)
    return found


def ratio(counts: Counts) -> float:
    return counts.bad / counts.total if counts.total else float("nan")


def test_every_window_has_the_ratio_that_prometheus_has(month: Month, ours: Ours) -> None:
    rules, end, compared, worst = Rules(render_rules(month.config)), T0 + DAYS * DAY, 0, 0.0
    for (slo, window), mine in ours.ratios.items():
        theirs = month.server.values(rules.recorded(f"slo:error_ratio:ratio_increase{window}", slo), T0, end, GRID)
        both = mine.keys() & theirs.keys()
        assert len(both) > 0.99 * DAYS * DAY / GRID
        worst = max(worst, *(abs(mine[at] - theirs[at]) for at in both))
        compared += len(both)
    tell(f"differential: {compared} error ratios of {len(ours.ratios)} windows, the largest difference {worst:.1e}")
    assert worst < 1e-9


def test_alerts_fire_and_end_within_one_evaluation_of_prometheus(month: Month, ours: Ours) -> None:
    rules, end = Rules(render_rules(month.config)), T0 + DAYS * DAY
    spans = 0
    for rule in rules.alerts:
        labels = rule["labels"]
        moments = sorted(month.server.values(rules.written_out(rule["expr"]), T0 + 3 * DAY, end, SCRAPE_SECONDS))
        theirs = spans_of(moments)
        mine = ours.fired.get((labels["slo"], f"{labels['severity']}/{labels['tier']}"), [])
        mine = [span for span in mine if span[0] > T0 + 3 * DAY]
        assert len(mine) == len(theirs), (labels, mine, theirs)
        for (began, last), (theirs_began, theirs_last) in zip(mine, theirs, strict=True):
            assert abs(began - theirs_began) <= SCRAPE_SECONDS
            assert abs(last - theirs_last) <= SCRAPE_SECONDS
        spans += len(theirs)
    tell(
        f"differential: {spans} alerts of {len(rules.alerts)} rules fired and ended within one evaluation of each other"
    )
    assert spans >= 10


def spans_of(moments: list[float]) -> list[tuple[float, float]]:
    """First and last of each run without a gap."""
    spans: list[tuple[float, float]] = []
    for at in moments:
        if spans and at - spans[-1][1] <= SCRAPE_SECONDS:
            spans[-1] = (spans[-1][0], at)
        else:
            spans.append((at, at))
    return spans


def test_a_replay_out_of_prometheus_is_the_replay_of_the_recording(
    month: Month, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line by line: alerts, their times and words, the summary."""
    config = str(month.recording.with_name("agent.yaml"))
    codes = [main(["replay", str(month.recording), "-c", config, "--json"])]
    recorded = capsys.readouterr().out
    stretch = ["--from", f"{T0}", "--to", f"{T0 + DAYS * DAY}", "--step", "all"]
    codes.append(main(["replay", "--prometheus", month.server.url, *stretch, "-c", config, "--json"]))
    scraped = capsys.readouterr().out
    tell(f"differential: replay --prometheus, {len(scraped.splitlines())} lines, equal: {scraped == recorded}")
    assert codes == [1, 1]
    assert scraped == recorded


@needs_h200
def test_a_real_h200_is_replayed_out_of_prometheus_as_from_its_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its pages as they were served, a read a second; Prometheus keeps milliseconds, so the recording's are rounded."""
    recording, config = tmp_path / "h200.jsonl.gz", tmp_path / "agent.yaml"
    pages = [entry for entry in read_entries(RECORDING) if entry.source == "vllm"]
    writer = RecordingWriter(recording)
    for entry in pages:
        writer.write(replace(entry, at_seconds=round(entry.at_seconds, 3)))
    writer.close()
    name = pages[0].target
    config.write_text(
        f"tick_seconds: 5\ncanaries: []\ntargets: [{{name: {name}, url: 'http://vllm-0:8000'}}]\nslos:\n"
        "  - {name: ttft, sli: ttft, threshold_seconds: 0.04, objective_ratio: 0.99}\n"
        "  - {name: itl, sli: itl, threshold_seconds: 0.025, objective_ratio: 0.95}\n"
        "  - {name: answered, sli: availability, threshold_seconds: 60, objective_ratio: 0.999}\n"
    )
    write_openmetrics(recording, tmp_path / "h200.txt")
    server = HistoryServer(tmp_path)
    server.load(tmp_path / "h200.txt")
    server.restart()
    try:
        codes = [main(["replay", str(recording), "-c", str(config), "--json"])]
        recorded = capsys.readouterr().out
        first, last = (round(pages[place].at_seconds, 3) for place in (0, -1))
        stretch = ["--from", f"{first}", "--to", f"{last}", "--step", "all"]
        codes.append(main(["replay", "--prometheus", server.url, *stretch, "-c", str(config), "--json"]))
        scraped = capsys.readouterr().out
    finally:
        server.stop()
    tell(f"differential, H200: {len(pages)} pages, {len(scraped.splitlines())} lines, equal: {scraped == recorded}")
    assert codes[0] == codes[1]
    assert scraped == recorded
    assert len(scraped.splitlines()) > 1  # something fired
