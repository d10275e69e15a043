"""Which source is the best, and when two cannot both be true."""

import pytest

from agent.model import Figure, Latency
from agent.signals.model import Signals
from agent.signals.sources import with_sources


def latency(low: float, high: float, count: float = 100.0) -> Latency:
    """p50 within these bounds, the others ten times as high."""
    p50, tail = Figure(low, low, high, count), Figure(10 * low, 10 * low, 10 * high, count)
    return Latency(p50, tail, tail, tail, low, count)


def signals(**given: object) -> Signals:
    return with_sources(Signals(300.0, **given))  # type: ignore[arg-type]


ENGINE, EXACT = latency(0.25, 0.5), latency(0.3, 0.3)


@pytest.mark.parametrize(
    ("given", "best"),
    [
        ({"ttft_seconds": ENGINE, "span_ttft_seconds": EXACT, "span_coverage_ratio": 0.99}, "span"),
        ({"ttft_seconds": ENGINE, "span_ttft_seconds": EXACT, "span_coverage_ratio": 0.5}, "engine"),
        ({"ttft_seconds": ENGINE, "canary_ttft_seconds": EXACT}, "engine"),
        ({"canary_ttft_seconds": EXACT}, "canary"),
        ({"span_ttft_seconds": EXACT}, "span"),
        ({}, None),
    ],
)
def test_the_best_source(given: dict[str, object], best: str | None) -> None:
    assert signals(**given).best_source.get("ttft_seconds") == best


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        (latency(0.3, 0.3), None),  # within the bucket
        (latency(0.5, 0.5), None),  # on its edge
        (
            latency(0.6, 0.6),
            "p50 is 600 ms by spans and 250 to 500 ms by the engine's histogram: likely the front",
        ),
        (latency(0.1, 0.1), "likely a clock that was set"),
        (latency(0.6, 0.6, count=10), None),  # too few
    ],
)
def test_only_bounds_that_do_not_touch_disagree(spans: Latency, said: str | None) -> None:
    found = signals(ttft_seconds=ENGINE, span_ttft_seconds=spans, span_coverage_ratio=1.0).disagreements
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


def test_spans_that_are_not_all_there_disagree_with_nothing_and_too_many_are_pollution() -> None:
    far = latency(9.0, 9.0)
    assert signals(ttft_seconds=ENGINE, span_ttft_seconds=far, span_coverage_ratio=0.6).disagreements == ()
    (said,) = signals(ttft_seconds=ENGINE, span_ttft_seconds=far, span_coverage_ratio=1.5).disagreements
    assert "spans tell of 150% of the requests" in said
    assert "pollution" in said


def test_canaries_slower_than_users_wait_somewhere_between() -> None:
    """The engine gives nine of ten users a first token within 5 s; half of the canaries wait 6 s."""
    (said,) = signals(ttft_seconds=ENGINE, canary_ttft_seconds=latency(6.0, 6.0, 10)).disagreements
    assert "likely a proxy" in said
    assert signals(ttft_seconds=ENGINE, canary_ttft_seconds=latency(4.0, 4.0, 10)).disagreements == ()
    assert signals(ttft_seconds=ENGINE, canary_ttft_seconds=latency(6.0, 6.0, 4)).disagreements == ()


def test_goodput_of_spans_must_lie_within_the_histograms_bounds() -> None:
    def said(exact: float) -> int:
        figures = {
            "goodput_ratio": Figure(None, 0.8, 0.9, 100.0),
            "span_goodput_ratio": Figure(exact, exact, exact, 100.0),
        }
        return len(signals(span_coverage_ratio=1.0, **figures).disagreements)

    assert [said(exact) for exact in (0.79, 0.8, 0.9, 0.91)] == [1, 0, 0, 1]
