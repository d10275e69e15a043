"""Sums of two latencies: whatever belongs to whatever, the truth lies within the bounds."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.stats.added import added_latency, added_over
from agent.stats.buckets import Buckets

EDGES = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, float("inf"))


def buckets(values: list[float]) -> Buckets:
    counts = [0.0] * len(EDGES)
    for value in values:
        counts[bisect_left(EDGES, value)] += 1
    return Buckets(EDGES, tuple(counts), sum(values))


def linear_quantile(values: list[float], quantile: float) -> float:
    """numpy's default."""
    ordered, rank = sorted(values), quantile * (len(values) - 1)
    below = int(rank)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (rank - below) * (ordered[above] - ordered[below])


PAIRS = st.lists(st.tuples(st.floats(0.0, 8.0), st.floats(0.0, 8.0)), min_size=1, max_size=60)


@given(PAIRS)
def test_every_percentile_of_the_sums_lies_within_its_bounds(pairs: list[tuple[float, float]]) -> None:
    first, second = (list(part) for part in zip(*pairs, strict=True))
    found = added_latency(buckets(first), buckets(second))
    assert found is not None
    sums = [a + b for a, b in pairs]
    for figure, quantile in ((found.p50, 0.5), (found.p90, 0.9), (found.p95, 0.95), (found.p99, 0.99)):
        assert figure is not None
        assert figure.low is not None
        assert figure.low <= linear_quantile(sums, quantile) + 1e-9
        assert figure.high is None or linear_quantile(sums, quantile) <= figure.high + 1e-9
    assert found.mean == pytest.approx(sum(sums) / len(sums))


@given(PAIRS, st.sampled_from([0.25, 0.6, 1.0, 3.0, 5.0]))
def test_good_ones_are_good_and_bad_ones_bad(pairs: list[tuple[float, float]], threshold: float) -> None:
    first, second = (list(part) for part in zip(*pairs, strict=True))
    counts = added_over(buckets(first), buckets(second), threshold)
    over = sum(a + b > threshold for a, b in pairs)
    assert counts.bad - 1e-9 <= over <= counts.bad + counts.undecided + 1e-9
    assert counts.total == pytest.approx(len(pairs))


def test_the_best_split_decides() -> None:
    """Firsts up to 1.0 and seconds up to 0.25 are at most 1.25 together: with a limit of 1.25 none is over it."""
    counts = added_over(buckets([0.9] * 10), buckets([0.2] * 10), 1.25)
    assert (counts.good, counts.bad, counts.undecided) == (10, 0, 0)


def test_without_one_half_nothing_is_known() -> None:
    assert added_latency(None, buckets([1.0])) is None
    assert added_latency(buckets([]), buckets([1.0])) is None
