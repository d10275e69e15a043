"""The SLOs of a config as recording and alerting rules for Prometheus: the same windows, factors and labels as the
agent's own alerts, from vLLM's own series, for where Prometheus shall watch as well (or watch the agent).

Recording rules are named level:metric:operations. There is no `for`: the short window already keeps a blip from
alerting, and a `for` would let budget go unseen (SRE Workbook, chapter 5).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from agent.config import Config
from agent.errors import ConfigError
from agent.model import BurnPair, Slo
from agent.planning import make_plan
from agent.render.counting import Counting, counting
from agent.render.promql import duration, quoted, rule_file
from agent.render.vllm_edges import DEFAULT_EDGES, Edges
from agent.slo.burn import OUTAGE_RATIO, VOLUME_KNOWN_SECONDS, VOLUME_SHARE

INTERVAL_SECONDS = 30.0
LONG_INTERVAL_SECONDS = 120.0
LONG_SECONDS = 86_400.0
"""Windows from here on are read every two minutes: they hold many thousands of samples and change slowly."""

REMARK = """
Written by `slo-agent rules`; do not edit.

The SLOs of the agent's config for Prometheus. Alerts carry the agent's own labels, and `evaluator: prometheus`: were
the labels the very same, each sender would resolve the other's alerts in Alertmanager. Group by
alertname, slo and severity, and one notification comes of both.
"""


def render_rules(config: Config, *, edges: Edges = DEFAULT_EDGES, matchers: str = "") -> str:
    """A rule file for Prometheus with every SLO of `config`.

    `edges` are the bucket edges of the vLLM servers by family, where they are not vLLM's own. `matchers` is put into
    every selector of a vLLM series, such as `job="vllm"`, where one Prometheus sees more than these targets.
    Raises ConfigError with one line for each SLO whose threshold no bucket edge can decide.
    """
    groups: list[dict[str, Any]] = []
    mistakes: list[str] = []
    for index, slo in enumerate(make_plan(config, ()).slos):
        try:
            counted = counting(slo, edges, matchers)
        except ValueError as mistake:
            mistakes.append(f'slos[{index}] "{slo.name}": {mistake}')
            continue
        groups.extend(_groups(slo, counted, config))
    if mistakes:
        raise ConfigError(mistakes)
    return rule_file(groups, REMARK)


def _groups(slo: Slo, counted: Counting, config: Config) -> Iterator[dict[str, Any]]:
    windows = sorted({seconds for pair in slo.pairs for seconds in (pair.short_seconds, pair.long_seconds)})
    quick = [seconds for seconds in windows if seconds < LONG_SECONDS]
    slow = _recordings(slo, counted, [seconds for seconds in windows if seconds >= LONG_SECONDS])
    if _has_gate(slo):
        slow.append(_period_recording(slo))
    if slow:
        yield _group(f"slo-{slo.name}-long", LONG_INTERVAL_SECONDS, slow)
    alerts = [_burn_alert(slo, pair, counted, config) for pair in slo.pairs]
    if counted.blind:
        alerts.append(_blind_alert(slo, counted, config))
    # One group, so that the alerts see what the recordings above them have just written.
    yield _group(f"slo-{slo.name}", INTERVAL_SECONDS, [*_recordings(slo, counted, quick), *alerts])


def _group(name: str, interval_seconds: float, rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "interval": duration(interval_seconds), "rules": rules}


def _recordings(slo: Slo, counted: Counting, windows: Sequence[float]) -> list[dict[str, Any]]:
    return [rule for seconds in windows for rule in _recordings_of_window(slo, counted, duration(seconds))]


def _recordings_of_window(slo: Slo, counted: Counting, window: str) -> list[dict[str, Any]]:
    """Bad and all events, then their ratio; the ratio has no value while there are no events."""
    return [
        {"record": f"slo:events_bad:increase{window}", "expr": counted.bad(window), "labels": _identity(slo)},
        {"record": f"slo:events:increase{window}", "expr": counted.total(window), "labels": _identity(slo)},
        {
            "record": f"slo:error_ratio:ratio_increase{window}",
            "expr": f"{_recorded('slo:events_bad:increase', slo, window)} / "
            f"({_recorded('slo:events:increase', slo, window)} > 0)",
            "labels": _identity(slo),
        },
    ]


def _has_gate(slo: Slo) -> bool:
    return slo.volume_gate and bool(slo.pairs) and slo.period_seconds > VOLUME_KNOWN_SECONDS


def _period_recording(slo: Slo) -> dict[str, Any]:
    """Events of a whole period at the traffic of the part that was recorded; no value before a day of it was."""
    seconds = min(pair.short_seconds for pair in slo.pairs)
    window = duration(seconds)
    recorded = f"{_recorded('slo:events:increase', slo, window)}[{duration(slo.period_seconds)}:{window}]"
    return {
        "record": "slo:events_expected:period",
        "expr": f"avg_over_time({recorded}) * {slo.period_seconds / seconds:.10g} and "
        f"count_over_time({recorded}) >= {VOLUME_KNOWN_SECONDS / seconds:.0f}",
        "labels": _identity(slo),
    }


def _gate(slo: Slo, pair: BurnPair) -> str:
    """The volume gate of the agent: see agent/slo/burn.py."""
    long, expected = duration(pair.long_seconds), _recorded("slo:events_expected:period", slo, "")
    share = pair.factor * pair.long_seconds / slo.period_seconds
    bad, ratio = _recorded("slo:events_bad:increase", slo, long), _recorded("slo:error_ratio:ratio_increase", slo, long)
    held = f"{bad} < {VOLUME_SHARE * share:.10g} * (1 - {slo.objective_ratio!r}) * {expected}"
    return f"unless ({held} and {ratio} < {OUTAGE_RATIO:g})"


def _burn_alert(slo: Slo, pair: BurnPair, counted: Counting, config: Config) -> dict[str, Any]:
    short, long = duration(pair.short_seconds), duration(pair.long_seconds)
    limit = f"{pair.factor:g} * (1 - {slo.objective_ratio!r})"
    lines = [
        f"{_recorded('slo:error_ratio:ratio_increase', slo, long)} > {limit}",
        f"and {_recorded('slo:error_ratio:ratio_increase', slo, short)} > {limit}",
        # increase() extrapolates to the window's edges: three events may read 2.98.
        f"and {_recorded('slo:events_bad:increase', slo, long)} > {slo.min_bad_events - 0.5:g}",
    ]
    if _has_gate(slo):
        lines.append(_gate(slo, pair))
    spent = pair.factor * pair.long_seconds / slo.period_seconds
    period = duration(slo.period_seconds)
    return {
        "alert": "SLOBurnRate",
        "expr": "\n".join(lines),
        "labels": {"severity": pair.severity, "tier": pair.tier, **_identity(slo), "evaluator": "prometheus"},
        "annotations": {
            "summary": f"{slo.name}: the error budget burns more than {pair.factor:g} times too fast.",
            "description": (
                f"{{{{ $value | humanizePercentage }}}} of the events of the last {long} were bad, and too many of "
                f"the last {short} as well; the limit is {pair.factor:g} times the allowed "
                f"{100 * (1 - slo.objective_ratio):.4g}%. "
                f"Promised: {100 * slo.objective_ratio:.6g}% {_promise(slo)} over {period}. {counted.remark}"
            ),
            "budget": f"{long} at this rate spend {100 * spent:.3g} % of the budget of {period}, or more.",
            **_links(slo, config),
        },
    }


def _blind_alert(slo: Slo, counted: Counting, config: Config) -> dict[str, Any]:
    return {
        "alert": "AgentBlind",
        "expr": counted.blind,
        "for": "5m",
        "labels": {"severity": "ticket", "tier": "slow", **_identity(slo), "evaluator": "prometheus"},
        "annotations": {
            "summary": f"{slo.name}: Prometheus cannot count its events.",
            "description": f"{counted.blind_reason} Its requests would all count as bad. Render the rules with the "
            "servers' own edges, or give every server the same --custom-histogram-buckets.",
            **_links(slo, config),
        },
    }


def _identity(slo: Slo) -> dict[str, str]:
    optional = {"model": slo.model, "role": slo.role}
    return {"slo": slo.name, "service": slo.service, **{name: value for name, value in optional.items() if value}}


def _recorded(series: str, slo: Slo, window: str) -> str:
    return f"{series}{window}{{slo={quoted(slo.name)},service={quoted(slo.service)}}}"


def _promise(slo: Slo) -> str:
    if slo.slice_seconds is not None:
        return f"of all slices of {duration(slo.slice_seconds)} good"
    if slo.sli == "availability":
        return "available"
    if slo.sli == "goodput":
        return f"with ttft within {slo.ttft_seconds:g} s and tpot within {slo.tpot_seconds:g} s"
    return f"with {slo.sli} within {slo.threshold_seconds:g} s"


def _links(slo: Slo, config: Config) -> dict[str, str]:
    links: Sequence[tuple[str, str]] = (
        ("runbook_url", slo.runbook_url),
        ("dashboard_url", config.outputs.dashboard_url),
        ("page_url", config.outputs.page_url),
    )
    return {name: address for name, address in links if address}
