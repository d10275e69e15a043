"""SLOs of a config as Prometheus rules: what is counted, what alerts, and what is refused."""

import re
from typing import Any

import promql_parser
import pytest
import yaml

from agent.config import Config
from agent.errors import ConfigError
from agent.model import Slo
from agent.render.counting import counting
from agent.render.promql import duration, edge_pattern
from agent.render.rules import render_rules
from agent.render.vllm_edges import DEFAULT_EDGES


def config(*slos: dict[str, Any], **more: Any) -> Config:
    return Config.model_validate({"slos": list(slos), "canaries": [{"kind": "chat"}], **more})


def rules(text: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def alerts(text: str, name: str = "SLOBurnRate") -> list[dict[str, Any]]:
    return [rule for rule in rules(text) if rule.get("alert") == name]


def recorded(text: str, name: str) -> str:
    (expr,) = [rule["expr"] for rule in rules(text) if rule.get("record") == name]
    return str(expr)


TTFT = {"name": "fast-start", "service": "chat", "sli": "ttft", "objective_ratio": 0.99, "threshold_seconds": 2.5}


def test_four_standard_pairs_with_strict_limits_and_no_for() -> None:
    """Factors 14.4, 6, 3 and 1 times the budget; each alert is its severity and tier."""
    found = alerts(render_rules(config(TTFT)))
    identity = [(alert["labels"]["severity"], alert["labels"]["tier"]) for alert in found]
    assert identity == [("page", "fast"), ("page", "slow"), ("ticket", "slow"), ("ticket", "trend")]
    limits = [re.findall(r"> ([\d.]+) \* \(1 - 0.99\)", alert["expr"]) for alert in found]
    assert limits == [["14.4"] * 2, ["6"] * 2, ["3"] * 2, ["1"] * 2]
    assert all("for" not in alert and ">=" not in alert["expr"] for alert in found)


def test_no_value_stands_in_a_label() -> None:
    """Labels are the alert's identity: a figure there would make a new alert of every change."""
    labels = alerts(render_rules(config(TTFT | {"model": "llama", "role": "decode"})))[0]["labels"]
    assert labels == {
        "severity": "page",
        "tier": "fast",
        "slo": "fast-start",
        "service": "chat",
        "model": "llama",
        "role": "decode",
        "evaluator": "prometheus",
    }


def test_counts_are_summed_before_the_division() -> None:
    """All engines' buckets, then one subtraction, then one division; idle time has no ratio."""
    text = render_rules(config(TTFT))
    assert recorded(text, "slo:events_bad:increase5m") == (
        "clamp_min(sum(increase(vllm:time_to_first_token_seconds_count[5m]))"
        ' - sum(increase(vllm:time_to_first_token_seconds_bucket{le=~"2\\\\.50*"}[5m])), 0)'
    )
    assert recorded(text, "slo:error_ratio:ratio_increase5m") == (
        'slo:events_bad:increase5m{slo="fast-start",service="chat"}'
        ' / (slo:events:increase5m{slo="fast-start",service="chat"} > 0)'
    )


@pytest.mark.parametrize(
    ("edge", "same", "other"),
    [
        (2.5, ["2.5", "2.50"], ["2", "25", "2.55", "12.5"]),
        (1.0, ["1", "1.0", "1.00"], ["10", "1.01", "0.1", "11"]),
        (0.025, ["0.025", "0.0250"], ["0.25", "0x025"]),
        (2560.0, ["2560", "2560.0"], ["256", "25600"]),
    ],
)
def test_an_edge_is_found_however_it_is_spelt(edge: float, same: list[str], other: list[str]) -> None:
    """Prometheus anchors regular expressions at both ends."""
    pattern = edge_pattern(edge)
    assert [bool(re.fullmatch(pattern, text)) for text in same] == [True] * len(same)
    assert [bool(re.fullmatch(pattern, text)) for text in other] == [False] * len(other)


def test_a_threshold_between_two_edges_is_refused_with_the_ways_out() -> None:
    """2 s lies between vLLM's 1 and 2.5; every such SLO is named, not only the first."""
    between = [TTFT | {"threshold_seconds": 2}, TTFT | {"name": "b", "sli": "tpot", "threshold_seconds": 0.06}]
    with pytest.raises(ConfigError) as refused:
        render_rules(config(*between))
    first, second = refused.value.lines
    assert first == (
        'slos[0] "fast-start": threshold_seconds is 2; vllm:time_to_first_token_seconds has no bucket edge there, so '
        "Prometheus cannot tell good from bad. Write 1 or 2.5, or start vLLM with an edge there: "
        "--custom-histogram-buckets '{\"time_to_first_token\": [..., 2, ...]}'."
    )
    assert second.startswith('slos[1] "b": threshold_seconds is 0.06; vllm:request_time_per_output_token_seconds')
    assert "Write 0.05 or 0.075" in second


def test_servers_with_buckets_of_their_own_are_taken_at_their_word() -> None:
    """Who started vLLM with an edge at 2 s says so, and 2 s is a fine threshold."""
    edges = {**DEFAULT_EDGES, "time_to_first_token": (1.0, 2.0, 4.0)}
    text = render_rules(config(TTFT | {"threshold_seconds": 2}), edges=edges)
    assert r"2(\\.0*)?" in recorded(text, "slo:events_bad:increase5m")


def test_only_what_is_late_for_certain_counts_as_late() -> None:
    """300 s lies between 240 and 480: what ended in between may have been in time, and the agent claims no more."""
    slo = {"name": "up", "sli": "availability", "source": "engine", "objective_ratio": 0.999, "threshold_seconds": 300}
    bad = recorded(render_rules(config(slo)), "slo:events_bad:increase1h")
    assert re.findall(r'le=~"(\d+)', bad) == ["480"]
    assert 'finished_reason=~"abort|error"' in bad
    assert "vllm:admission_rejections_total" in bad


def test_canaries_are_counted_by_the_agent() -> None:
    """What the agent could not tell counts as the SLO says."""
    slo = {"name": "seen", "sli": "availability", "source": "canary", "objective_ratio": 0.99}
    strict = recorded(render_rules(config(slo)), "slo:events_bad:increase1h")
    mild = recorded(render_rules(config(slo | {"undecided": "good"})), "slo:events_bad:increase1h")
    assert strict == 'sum(increase(slo_agent_events_total{slo="seen",service="llm",result=~"bad|unknown"}[1h]))'
    assert mild == 'sum(increase(slo_agent_events_total{slo="seen",service="llm",result=~"bad"}[1h]))'


def test_own_pairs_replace_the_standard_ones() -> None:
    """And their windows are the ones recorded."""
    pair = {"severity": "page", "tier": "fast", "short_seconds": 90, "long_seconds": 900, "factor": 20}
    text = render_rules(config(TTFT, burn={"windows": [pair], "min_bad_events": 5}))
    assert [rule["record"] for rule in rules(text) if "record" in rule and "ratio" in rule["record"]] == [
        "slo:error_ratio:ratio_increase90s",
        "slo:error_ratio:ratio_increase15m",
    ]
    (alert,) = alerts(text)
    assert 'slo:events_bad:increase15m{slo="fast-start",service="chat"} > 4.5' in alert["expr"]


def test_a_week_has_factors_of_its_own_and_none_below_one() -> None:
    """Same share of the budget, period 7 d: 2 % in an hour is 3.36; 10 % in 3 d would be 0.233 and is cut at 1."""
    found = alerts(render_rules(config(TTFT | {"period_seconds": 7 * 86_400})))
    assert [float(re.findall(r"> ([\d.]+) \*", alert["expr"])[0]) for alert in found] == [3.36, 1.4, 1.0, 1.0]


def test_further_matchers_reach_every_vllm_series() -> None:
    """For a Prometheus that sees other vLLMs too."""
    text = render_rules(config(TTFT | {"model": "llama"}), matchers='job="vllm-prod"')
    series = re.findall(r"vllm:[a-z_]+(?:\{[^}]*\})?", "\n".join(str(rule["expr"]) for rule in rules(text)))
    assert series
    assert all('model_name="llama"' in one and 'job="vllm-prod"' in one for one in series)


@pytest.mark.parametrize("sli", ["ttft", "itl", "tpot", "e2e", "queue"])
def test_every_expression_is_promql(sli: str) -> None:
    """Each latency has its histogram, and what is rendered parses."""
    text = render_rules(config(TTFT | {"sli": sli, "threshold_seconds": 1, "model": 'a"b\\c'}))
    for rule in rules(text):
        promql_parser.parse(rule["expr"])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(300, "5m"), (3600, "1h"), (259_200, "3d"), (90, "90s"), (5400, "90m"), (0.5, "500ms"), (2_592_000, "30d")],
)
def test_durations_are_written_as_prometheus_writes_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_slices_are_taken_as_the_agents_judged_them() -> None:
    """PromQL has no events by slice: even a bucket edge that Prometheus could count is left to the agent."""
    slo = Slo("s", "chat", "ttft", "engine", 0.99, 2_592_000.0, (), 2.5, slice_seconds=60.0, slice_good_ratio=0.95)
    counted = counting(slo, DEFAULT_EDGES, "")
    assert counted.total("1h") == 'sum(increase(slo_agent_events_total{slo="s",service="chat"}[1h]))'
    assert "slices of 60 s, as the agents judged them" in counted.remark
