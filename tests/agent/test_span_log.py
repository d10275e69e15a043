"""Spans: exact figures of users' requests, canaries kept out, coverage told, memory bounded."""

import random
from dataclasses import replace

import pytest

from agent.signals.model import Signals
from agent.span_log import SpanLog, attributed
from agent.stats.goodput import GoodputTarget
from probes.spans.result import SpanResult

T0 = 1_800_000_000.0
CHAT = GoodputTarget(2.5, 0.05)
GOOD = SpanResult(
    outcome="ok", end_at_seconds=T0, ttft_seconds=0.2, tpot_seconds=0.01, e2e_seconds=1.0, output_tokens=10, target="a"
)


def log_of(*spans: SpanResult, targets: tuple[str, ...] = ("a", "b")) -> SpanLog:
    log = SpanLog()
    log.take(attributed(spans, targets), CHAT, T0 + 5)
    return log


def seen(log: SpanLog, name: str = "a", finished: float | None = None, start: float = T0 - 60) -> Signals:
    return log.add_to(Signals(60.0, requests_finished=finished), start, start + 120, [name])


def test_goodput_is_joint_and_exact() -> None:
    """Of four, one is too slow to begin, one too slow in pace, one failed: one in four is good."""
    spans = (GOOD, replace(GOOD, ttft_seconds=3.0), replace(GOOD, tpot_seconds=0.2), replace(GOOD, outcome="failed"))
    signals = seen(log_of(*spans), finished=8.0)
    good = signals.span_goodput_ratio
    assert good is not None
    assert (good.value, good.low, good.high) == (0.25, 0.25, 0.25)
    assert signals.span_coverage_ratio == 0.5


def test_what_a_span_does_not_tell_widens_goodput() -> None:
    signals = seen(log_of(GOOD, replace(GOOD, tpot_seconds=None)))
    good = signals.span_goodput_ratio
    assert good is not None
    assert (good.value, good.low, good.high) == (None, 0.5, 1.0)
    assert signals.span_coverage_ratio is None


def test_canaries_count_in_coverage_alone() -> None:
    signals = seen(log_of(GOOD, replace(GOOD, is_canary=True, ttft_seconds=9.0)), finished=2.0)
    assert (signals.span_requests, signals.span_coverage_ratio) == (1.0, 1.0)
    assert signals.span_ttft_seconds is not None
    assert signals.span_ttft_seconds.count == 1


def test_percentiles_hold_the_truth() -> None:
    chance = random.Random(7)  # noqa: S311  no secret
    values = sorted(chance.lognormvariate(-1, 1) for _ in range(2_001))
    ttft = seen(log_of(*(replace(GOOD, ttft_seconds=value) for value in values))).span_ttft_seconds
    assert ttft is not None
    for name, quantile in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        figure, truth = getattr(ttft, name), values[int(quantile * 2_000)]
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
    assert seen(log_of(span, targets=targets), name).span_requests == 1.0


def test_no_spans_are_no_figures() -> None:
    assert seen(log_of(), finished=5.0) == Signals(60.0, requests_finished=5.0)
    assert seen(log_of(GOOD), finished=5.0, start=T0 + 60) == Signals(60.0, requests_finished=5.0)


def test_an_hour_is_kept_and_no_more() -> None:
    log = SpanLog()
    for minute in range(180):
        at = T0 + 60 * minute
        log.take([replace(GOOD, end_at_seconds=at)], CHAT, at)
    requests = log.add_to(Signals(60.0), T0, T0 + 4 * 3_600, ["a"]).span_requests
    assert requests is not None
    assert 60 <= requests <= 63


def test_totals_since_the_start_are_histograms() -> None:
    totals = {total.histogram.signal: total for total in log_of(GOOD, replace(GOOD, ttft_seconds=3.0)).totals()}
    ttft = totals["ttft_seconds"]
    assert (ttft.source, ttft.target, ttft.histogram.counts[-1]) == ("span", "a", 2.0)
    assert ttft.histogram.total == pytest.approx(3.2)
    assert ttft.histogram.counts[ttft.histogram.edges.index(2.5)] == 1.0
