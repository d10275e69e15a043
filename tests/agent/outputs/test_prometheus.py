"""What stands on the page for one state of the agent."""

import math
import re
import subprocess
from dataclasses import replace

import pytest
from filled_view import ADVICE, ALERT, FILLED, NOW, STATUS, TARGET, FakeView, histogram
from prometheus_client import CollectorRegistry, generate_latest

from agent.model import Counts, ReplicaWish
from agent.outputs.metric_table import KV_HIT
from agent.outputs.points import Point, presentable
from agent.outputs.prometheus import ViewCollector, families
from agent.outputs.view_points import window_label
from agent.signals.model import LatencyTotal, Signals

UNITS_OF_VIOLATION = ("violated_seconds", "violation_dollars")


def scrape(view: FakeView) -> CollectorRegistry:
    registry = CollectorRegistry()
    ViewCollector(view, registry)
    return registry


def test_an_empty_agent_shows_only_what_it_counted() -> None:
    """Nothing watched: no alert fires, zero seconds are covered, and nothing else is known."""
    lines = [line for line in generate_latest(scrape(FakeView())).decode().splitlines() if not line.startswith("#")]
    assert lines == [
        'slo_agent_alerts_firing{severity="page"} 0.0',
        'slo_agent_alerts_firing{severity="ticket"} 0.0',
        'slo_agent_covered_seconds{target="*",window="1m"} 0.0',
        'slo_agent_covered_seconds{target="*",window="5m"} 0.0',
        'slo_agent_covered_seconds{target="*",window="1h"} 0.0',
        "slo_agent_last_tick_age_seconds 2.0",
    ]


def test_events_are_counted_by_result() -> None:
    page = scrape(FILLED)
    labels = {"slo": "chat-ttft", "service": "chat", "model": ""}
    values = [
        page.get_sample_value("slo_agent_events_total", {**labels, "result": r}) for r in ("good", "bad", "unknown")
    ]
    assert values == [900.0, 90.0, 10.0]


def test_a_burn_rate_without_events_is_absent() -> None:
    """The slow pair's long window (6 h) saw nothing."""
    page = scrape(FILLED)
    rates = {w: page.get_sample_value("slo_agent_burn_rate", {"slo": "chat-ttft", "window": w}) for w in ("5m", "6h")}
    assert rates == {"5m": 20.0, "6h": None}


def test_an_unknown_percentile_keeps_the_bound_that_is_known() -> None:
    """A p99 in the last bucket: at least 10 s, and no more is known."""
    page = scrape(FILLED)
    labels = {"target": "*", "signal": "ttft", "percentile": "p99", "window": "1h"}
    found = {
        bound: page.get_sample_value("slo_agent_latency_percentile_seconds", {**labels, "bound": bound})
        for bound in ("value", "low", "high")
    }
    assert found == {"value": None, "low": 10.0, "high": None}


def test_percentiles_of_one_target_stand_there_over_five_minutes_only() -> None:
    page = scrape(FILLED)
    labels = {"target": "vllm-0", "signal": "ttft", "percentile": "p50", "bound": "value"}
    found = {
        window: page.get_sample_value("slo_agent_latency_percentile_seconds", {**labels, "window": window})
        for window in ("1m", "5m", "1h")
    }
    assert found == {"1m": None, "5m": 0.5, "1h": None}


def test_an_edge_is_spelt_alike_whoever_gave_it() -> None:
    """Canaries hand over 1, engines 1.0: two spellings of `le` would be two buckets to Prometheus."""
    canary = replace(histogram("ttft_seconds", (1.0, 2.0, 3.0)), edges=(1, 10, math.inf))
    engine = replace(canary, edges=(1.0, 10.0, math.inf))
    totals = [LatencyTotal("vllm-0", "canary", canary), LatencyTotal("vllm-0", "engine", engine)]
    page = generate_latest(scrape(FakeView(latencies=totals))).decode()
    assert set(re.findall(r'le="([^"]+)"', page)) == {"1.0", "10.0", "+Inf"}


def test_engines_of_a_target_are_added_up() -> None:
    """Counts (2, 5, 6) and (1, 1, 4) over the same edges; sums 6.5 and 3.5."""
    two = [
        LatencyTotal("vllm-0", "engine", histogram("ttft_seconds", (2.0, 5.0, 6.0))),
        LatencyTotal("vllm-0", "engine", histogram("ttft_seconds", (1.0, 1.0, 4.0), engine="1", total=3.5)),
    ]
    page = scrape(FakeView(latencies=two))
    labels = {"target": "vllm-0", "model": "m", "source": "engine"}
    buckets = [page.get_sample_value("slo_agent_ttft_seconds_bucket", {**labels, "le": le}) for le in ("0.1", "1.0")]
    assert buckets == [3.0, 6.0]
    assert page.get_sample_value("slo_agent_ttft_seconds_bucket", {**labels, "le": "+Inf"}) == 10.0
    assert page.get_sample_value("slo_agent_ttft_seconds_count", labels) == 10.0
    assert page.get_sample_value("slo_agent_ttft_seconds_sum", labels) == 10.0


def test_engines_with_other_buckets_meet_at_the_edges_they_share() -> None:
    """Edges (0.1, 1) and (0.1, 2): nothing can be said about 1 s or 2 s for both."""
    first = histogram("ttft_seconds", (2.0, 5.0, 6.0))
    second = histogram("ttft_seconds", (1.0, 1.0, 4.0), (0.1, 2.0), engine="1", total=None)
    page = scrape(FakeView(latencies=[LatencyTotal("vllm-0", "engine", one) for one in (first, second)]))
    labels = {"target": "vllm-0", "model": "m", "source": "engine"}
    found = [
        page.get_sample_value("slo_agent_ttft_seconds_bucket", {**labels, "le": le})
        for le in ("0.1", "1.0", "2.0", "+Inf")
    ]
    assert found == [3.0, None, None, 10.0]
    assert page.get_sample_value("slo_agent_ttft_seconds_sum", labels) is None


@pytest.mark.parametrize(
    ("health", "up"), [("up", 1.0), ("down", 0.0), ("stuck", 0.0), ("stale", None), ("unknown", None)]
)
def test_a_target_is_up_down_or_not_known(health: str, up: float | None) -> None:
    page = scrape(FakeView(targets=(replace(TARGET, health=health),)))
    assert page.get_sample_value("slo_agent_target_up", {"target": "vllm-0"}) == up
    assert page.get_sample_value("slo_agent_target_health", {"target": "vllm-0", "health": health}) == 1.0


def test_a_target_never_seen_has_no_age() -> None:
    page = scrape(FakeView(targets=(TARGET, replace(TARGET, name="vllm-1", last_seen_seconds=None))))
    ages = [page.get_sample_value("slo_agent_last_reading_age_seconds", {"target": t}) for t in ("vllm-0", "vllm-1")]
    assert ages == [3.0, None]


def test_only_the_newest_open_advice_recommends_replicas() -> None:
    older = replace(ADVICE, id="r-0", at_seconds=NOW - 999, proposed=9.0)
    judged = replace(ADVICE, id="r-2", at_seconds=NOW, proposed=7.0, verdict="helped")
    page = scrape(FakeView(recommendations=(older, ADVICE, judged)))
    labels = {"model": "m", "role": "aggregated"}
    found = [
        page.get_sample_value("slo_agent_recommended_replicas", {**labels, "bound": bound})
        for bound in ("value", "low", "high")
    ]
    assert found == [3.0, 3.0, 5.0]


def test_the_replicas_to_have_stand_there_whether_or_not_advice_is_open() -> None:
    """Also under other autoscalers' names, if asked for; there, what is not sure leaves things as they are."""
    sure = ReplicaWish("m", "aggregated", 2, 4, 3, 5, 0.9, "grow")
    unsure = ReplicaWish("n", "decode", 3, 1, 1, 3, 0.3, "shrink")
    view, registry = FakeView(replicas=(sure, unsure)), CollectorRegistry()
    ViewCollector(view, registry, with_aliases=True)
    labels = {"model": "m", "role": "aggregated"}
    assert registry.get_sample_value("slo_agent_recommended_replicas", {**labels, "bound": "value"}) == 4
    assert registry.get_sample_value("slo_agent_recommendation_confidence", {**labels, "action": "scale"}) == 0.9
    where = {"namespace": "", "accelerator_type": ""}
    assert registry.get_sample_value("wva_desired_replicas", {"variant_name": "m", **where}) == 4
    assert registry.get_sample_value("wva_desired_replicas", {"variant_name": "n-decode", **where}) == 3
    assert registry.get_sample_value("vllm:deployment_replicas", {"model_name": "m"}) == 4
    assert "wva_" not in generate_latest(scrape(view)).decode()


def test_remembered_advice_is_counted_by_verdict() -> None:
    judged = replace(ADVICE, id="r-2", verdict="kept")
    page = scrape(FakeView(recommendations=(ADVICE, judged)))
    labels = {"model": "m", "role": "aggregated", "action": "scale"}
    assert page.get_sample_value("slo_agent_recommendations", {**labels, "verdict": "open"}) == 1
    assert page.get_sample_value("slo_agent_recommendations", {**labels, "verdict": "kept"}) == 1


def test_a_resolved_alert_is_absent() -> None:
    page = scrape(FakeView(alerts=(replace(ALERT, ends_at_seconds=NOW),)))
    assert "slo_agent_alert_firing{" not in generate_latest(page).decode()
    assert page.get_sample_value("slo_agent_alerts_firing", {"severity": "page"}) == 0.0


def test_a_series_given_twice_does_not_spoil_the_page() -> None:
    """Prometheus refuses a whole page for one duplicate."""
    page = generate_latest(scrape(FakeView(targets=(TARGET, TARGET), slos=(STATUS, STATUS)))).decode()
    lines = [line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))


def test_nan_and_infinity_are_unknown() -> None:
    total = Signals(60.0, power_watts=math.nan, tokens_per_joule=math.inf, tokens_per_dollar=0.0)
    page = scrape(FakeView(total=total))
    found = [
        page.get_sample_value(f"slo_agent_{name}", {"target": "*"})
        for name in ("power_watts", "tokens_per_joule", "tokens_per_dollar")
    ]
    assert found == [None, None, 0.0]


def test_a_metric_with_too_many_series_is_cut_and_says_so() -> None:
    points = [Point(KV_HIT, (f"tier-{number}",), 0.5) for number in range(5)]
    cut = presentable(points, max_series=3)
    assert [point.labels for point in cut] == [("tier-0",), ("tier-1",), ("tier-2",), ("slo_agent_kv_hit_ratio",)]
    assert [family.name for family in families(cut)] == ["slo_agent_kv_hit_ratio", "slo_agent_series_dropped"]
    assert cut[-1].value == 2.0


def test_label_values_with_quotes_and_newlines_are_escaped() -> None:
    page = generate_latest(scrape(FakeView(total=Signals(60.0, cache_hit_ratio_by_tier={'a"b\n': 0.5})))).decode()
    assert 'tier="a\\"b\\n"' in page


@pytest.mark.parametrize(
    ("seconds", "label"),
    [(30, "30s"), (90, "90s"), (300, "5m"), (3600, "1h"), (5400, "90m"), (86_400, "1d"), (259_200, "3d")],
)
def test_windows_are_written_as_prometheus_writes_them(seconds: float, label: str) -> None:
    assert window_label(seconds) == label


def test_an_slo_without_a_count_yet_starts_at_zero() -> None:
    """A counter must exist at 0 for its first increase to be seen."""
    page = scrape(FakeView(slos=(STATUS,), events={"chat-ttft": Counts()}))
    labels = {"slo": "chat-ttft", "service": "chat", "model": "", "result": "bad"}
    assert page.get_sample_value("slo_agent_events_total", labels) == 0.0


def test_violated_time_stands_in_seconds_and_costs_by_the_minute() -> None:
    """12 minutes at 2 dollars each: Prometheus' base unit of time is the second."""
    page = scrape(FILLED)
    told = [page.get_sample_value(f"slo_agent_{name}", {"slo": "chat-ttft"}) for name in UNITS_OF_VIOLATION]
    assert told == [720.0, 24.0]


@pytest.mark.real
def test_promtool_finds_no_fault_with_the_page(promtool: str) -> None:
    page = generate_latest(scrape(FILLED))
    done = subprocess.run([promtool, "check", "metrics"], check=False, input=page, capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
