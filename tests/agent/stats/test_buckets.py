"""What a histogram can prove."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model import Counts
from agent.stats.buckets import Buckets, latency, merged, percentile, share_over, split_at

EDGES = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, math.inf)
values = st.lists(st.floats(0, 8, allow_nan=False).map(lambda x: round(x, 3)), min_size=1, max_size=300)
quantiles = st.sampled_from((0.0, 0.5, 0.9, 0.95, 0.99, 1.0))
layouts = st.sets(st.sampled_from((0.1, 0.2, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0)), max_size=6).map(
    lambda edges: (*sorted(edges), math.inf)
)


def histogram_of(seconds: list[float], edges: tuple[float, ...] = EDGES) -> Buckets:
    counts = [0.0] * len(edges)
    for value in seconds:
        counts[next(i for i, edge in enumerate(edges) if value <= edge)] += 1
    return Buckets(edges, tuple(counts), sum(seconds))


def numpy_percentile(seconds: list[float], quantile: float) -> float:
    """numpy's `linear` method: between the two neighbours of rank q(n-1), in proportion."""
    ordered = sorted(seconds)
    rank = quantile * (len(ordered) - 1)
    below, above = math.floor(rank), math.ceil(rank)
    return ordered[below] + (ordered[above] - ordered[below]) * (rank - below)


def bucket(seconds: float, edges: tuple[float, ...] = EDGES) -> tuple[float, float]:
    place = next(i for i, edge in enumerate(edges) if seconds <= edge)
    return (edges[place - 1] if place else 0.0), edges[place]


@given(values, quantiles)
def test_bounds_hold_the_true_percentile_and_the_value_lies_within_them(seconds: list[float], quantile: float) -> None:
    figure = percentile(histogram_of(seconds), quantile)
    truth = numpy_percentile(seconds, quantile)
    assert figure is not None
    assert figure.low is not None
    assert figure.low <= truth + 1e-9
    assert figure.high is None or truth <= figure.high + 1e-9
    assert figure.value is None or (figure.high is not None and figure.low <= figure.value <= figure.high)
    assert figure.count == len(seconds)


@given(values, quantiles)
def test_bounds_are_never_wider_than_the_two_buckets_of_the_neighbouring_ranks(
    seconds: list[float], quantile: float
) -> None:
    """`low` is the lower edge of the bucket with rank floor(q(n-1)), `high` the upper one of that with ceil(q(n-1))."""
    figure = percentile(histogram_of(seconds), quantile)
    ordered, rank = sorted(seconds), round(quantile * (len(seconds) - 1), 9)
    high = bucket(ordered[math.ceil(rank)])[1]
    assert figure is not None
    assert figure.low == bucket(ordered[math.floor(rank)])[0]
    assert figure.high == (None if math.isinf(high) else high)


def test_rounding_of_the_rank_does_not_widen_the_bounds() -> None:
    """Where q(n-1) is a whole number, one bucket holds it, whatever floats make of the product."""
    for n in range(1, 3001):
        ordered = [0.05] * n
        for quantile in (0.5, 0.9, 0.95, 0.99):
            rank = quantile * (n - 1)
            if abs(rank - round(rank)) < 1e-6:
                at = round(rank)
                counts = (float(at), 1.0, float(n - at - 1))
                figure = percentile(Buckets((1.0, 2.0, 3.0), counts, None), quantile)
                assert figure is not None, ordered
                assert (figure.low, figure.high) == (1.0, 2.0), (n, quantile)


def test_beyond_the_last_finite_edge_there_is_neither_value_nor_high() -> None:
    figure = percentile(histogram_of([0.2] * 9 + [50.0]), 0.99)
    assert figure is not None
    assert (figure.value, figure.low, figure.high) == (None, 0.25 - 0.15, None)


def test_no_observations_are_no_percentile_no_latency_and_no_share() -> None:
    empty = Buckets(EDGES, (0.0,) * len(EDGES), 0.0)
    assert (percentile(empty, 0.5), latency(empty), latency(None), share_over(empty, 1.0)) == (None, None, None, None)


@given(st.lists(st.tuples(values, layouts), min_size=3, max_size=3))
def test_merging_is_associative_and_loses_no_observation(parts: list[tuple[list[float], tuple[float, ...]]]) -> None:
    a, b, c = (histogram_of(seconds, edges) for seconds, edges in parts)
    left, right = (a + b) + c, a + (b + c)
    assert (left.edges, left.counts) == (right.edges, right.counts)
    assert left.count == sum(len(seconds) for seconds, _ in parts)
    assert left.total == pytest.approx(right.total)


@given(st.lists(st.tuples(values, layouts), min_size=1, max_size=4), quantiles)
def test_bounds_of_merged_layouts_hold_the_percentile_of_all_together(
    parts: list[tuple[list[float], tuple[float, ...]]], quantile: float
) -> None:
    whole = merged(histogram_of(seconds, edges) for seconds, edges in parts)
    truth = numpy_percentile([value for seconds, _ in parts for value in seconds], quantile)
    figure = percentile(whole, quantile) if whole else None
    assert figure is not None
    assert figure.low is not None
    assert figure.low - 1e-9 <= truth <= (math.inf if figure.high is None else figure.high + 1e-9)


def test_layouts_merge_on_the_edges_they_share() -> None:
    """(0.1, 1, inf) and (0.5, 1, inf) share 1: below it nothing more is known of both."""
    both = Buckets((0.1, 1.0, math.inf), (1.0, 2.0, 3.0), 9.0) + Buckets((0.5, 1.0, math.inf), (10.0, 20.0, 30.0), 1.0)
    assert both == Buckets((1.0, math.inf), (33.0, 33.0), 10.0)


def test_merging_nothing_is_nothing() -> None:
    assert merged([]) is None


@given(values, st.sampled_from((0.1, 0.3, 1.0, 2.0, 5.0, 6.0)))
def test_a_share_over_a_threshold_holds_the_truth_and_is_exact_on_an_edge(
    seconds: list[float], threshold: float
) -> None:
    figure = share_over(histogram_of(seconds), threshold)
    truth = sum(value > threshold for value in seconds) / len(seconds)
    assert figure is not None
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low - 1e-12 <= truth <= figure.high + 1e-12
    if threshold in EDGES:
        assert figure.value == figure.low == figure.high
    assert figure.value is None or figure.low <= figure.value <= figure.high
    assert figure.ci_low is not None
    assert figure.ci_high is not None
    assert figure.ci_low <= figure.low + 1e-12
    assert figure.ci_high >= figure.high - 1e-12


def test_events_in_the_bucket_around_the_threshold_are_undecided() -> None:
    """2 s lies in (1, 2.5]: the five there may be on either side."""
    buckets = Buckets(EDGES, (1.0, 0.0, 0.0, 2.0, 5.0, 3.0, 4.0), None)
    assert split_at(buckets, 2.0) == Counts(good=3, bad=7, undecided=5)
    assert split_at(buckets, 2.5) == Counts(good=8, bad=7)


def test_a_share_over_a_threshold_beyond_the_last_edge_has_bounds_and_no_value() -> None:
    figure = share_over(histogram_of([0.2, 0.2, 9.0, 50.0]), 20.0)
    assert figure is not None
    assert (figure.value, figure.low, figure.high) == (None, 0.0, 0.5)


def test_a_mean_that_the_buckets_disprove_is_unknown() -> None:
    """Of a request that fails while it waits, vLLM 0.32 observes minus its uptime as queue time."""
    poisoned = Buckets(EDGES, (1.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0), 9 * 2.0 - 86_400.0)
    sound = Buckets(EDGES, (1.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0), 18.05)
    found = [latency(poisoned), latency(sound)]
    assert [figures.mean if figures else 0 for figures in found] == [None, pytest.approx(1.805)]
