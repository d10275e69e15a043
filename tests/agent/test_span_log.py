"""Spans: exact figures of users' requests, canaries kept out, coverage told, memory bounded."""

import random
from dataclasses import replace

import pytest

from agent.span_log import SpanLog
from agent.stats.goodput import GoodputTarget
from probes.spans.result import SpanResult

T0 = 1_800_000_000.0
GOOD = SpanResult(
    outcome="ok", end_at_seconds=T0, ttft_seconds=0.2, tpot_seconds=0.01, e2e_seconds=1.0, output_tokens=10, target="a"
)


def log_of(*spans: SpanResult, targets: tuple[str, ...] = ("a", "b")) -> SpanLog:
    log = SpanLog(GoodputTarget(2.5, 0.05))
    log.take(spans, targets, T0 + 5)
    return log


def test_goodput_is_joint_and_exact() -> None:
    """Of four, one is too slow to begin, one too slow in pace, one failed: one in four is good."""
    spans = (GOOD, replace(GOOD, ttft_seconds=3.0), replace(GOOD, tpot_seconds=0.2), replace(GOOD, outcome="failed"))
    signals = log_of(*spans).signals(T0 - 60, T0 + 60, ["a"], 8.0)
    assert signals is not None
    assert signals.goodput_ratio is not None
    assert (signals.goodput_ratio.value, signals.goodput_ratio.low, signals.goodput_ratio.high) == (0.25, 0.25, 0.25)
    assert signals.coverage_ratio == 0.5


def test_what_a_span_does_not_tell_widens_goodput() -> None:
    signals = log_of(GOOD, replace(GOOD, tpot_seconds=None)).signals(T0 - 60, T0 + 60, ["a"], None)
    assert signals is not None
    assert signals.goodput_ratio is not None
    assert (signals.goodput_ratio.value, signals.goodput_ratio.low, signals.goodput_ratio.high) == (None, 0.5, 1.0)
    assert signals.coverage_ratio is None


def test_canaries_count_in_coverage_alone() -> None:
    signals = log_of(GOOD, replace(GOOD, is_canary=True, ttft_seconds=9.0)).signals(T0 - 60, T0 + 60, ["a"], 2.0)
    assert signals is not None
    assert (signals.requests, signals.coverage_ratio) == (1, 1.0)
    assert signals.ttft_seconds is not None
    assert signals.ttft_seconds.count == 1


def test_percentiles_hold_the_truth() -> None:
    chance = random.Random(7)  # noqa: S311  no secret
    values = sorted(chance.lognormvariate(-1, 1) for _ in range(2_001))
    signals = log_of(*(replace(GOOD, ttft_seconds=value) for value in values)).signals(T0 - 60, T0 + 60, ["a"], None)
    assert signals is not None
    assert signals.ttft_seconds is not None
    for name, quantile in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        figure, truth = getattr(signals.ttft_seconds, name), values[int(quantile * 2_000)]
        assert figure.low <= truth <= figure.high
        assert figure.high / figure.low < 1.02
        assert figure.ci_low <= truth <= figure.ci_high


@pytest.mark.parametrize(
    ("span", "targets", "name"),
    [
        (GOOD, ("a", "b"), "a"),
        (replace(GOOD, target="", pod="b"), ("a", "b"), "b"),
        (replace(GOOD, target=""), ("only",), "only"),
        (replace(GOOD, target="gone"), ("a", "b"), "unknown"),
    ],
    ids=["its resource says so", "its pod is a target", "there is only one", "nobody knows"],
)
def test_whose_request_it_was(span: SpanResult, targets: tuple[str, ...], name: str) -> None:
    assert log_of(span, targets=targets).signals(T0 - 60, T0 + 60, [name], None) is not None


def test_no_spans_are_no_figures() -> None:
    assert log_of().signals(T0 - 60, T0 + 60, ["a"], 5.0) is None
    assert log_of(GOOD).signals(T0 + 60, T0 + 120, ["a"], 5.0) is None


def test_an_hour_is_kept_and_no_more() -> None:
    log = SpanLog(GoodputTarget(2.5, 0.05))
    for minute in range(180):
        at = T0 + 60 * minute
        log.take([replace(GOOD, end_at_seconds=at)], ["a"], at)
    signals = log.signals(T0, T0 + 4 * 3_600, ["a"], None)
    assert signals is not None
    assert 60 <= signals.requests <= 63


def test_totals_since_the_start_are_histograms() -> None:
    totals = {total.histogram.signal: total for total in log_of(GOOD, replace(GOOD, ttft_seconds=3.0)).totals()}
    ttft = totals["ttft_seconds"]
    assert (ttft.source, ttft.target, ttft.histogram.counts[-1]) == ("span", "a", 2.0)
    assert ttft.histogram.total == pytest.approx(3.2)
    assert ttft.histogram.counts[ttft.histogram.edges.index(2.5)] == 1.0
