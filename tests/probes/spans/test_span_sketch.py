"""Percentiles from a sketch hold the exact ones, within the error it states, merged or not."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.spans.sketch import RELATIVE_ERROR, LatencySketch

SECONDS = st.floats(1e-6, 86_400)
QUANTILES = (0.0, 0.5, 0.9, 0.95, 0.99, 1.0)


def sketch(values: list[float]) -> LatencySketch:
    filled = LatencySketch()
    for value in values:
        filled.add(value)
    return filled


def linear_percentile(values: list[float], quantile: float) -> float:
    """numpy's."""
    ordered = sorted(values)
    rank = quantile * (len(ordered) - 1)
    below, above = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    return below + (above - below) * (rank - math.floor(rank))


@given(st.lists(SECONDS, min_size=1), st.lists(SECONDS))
def test_bounds_hold_the_exact_percentile(one: list[float], other: list[float]) -> None:
    merged = sketch(one)
    merged.merge(sketch(other))
    for quantile in QUANTILES:
        bounds = merged.bounds(quantile)
        assert bounds is not None
        exact = linear_percentile([*one, *other], quantile)
        assert bounds[0] <= exact * (1 + 1e-12)
        assert exact * (1 - 1e-12) <= bounds[1]


def test_bounds_are_as_narrow_as_the_error_says() -> None:
    """1001 values from 0.1 s to 1.1 s: the p99 is the 991st, 1.09 s, alone in its rank."""
    bounds = sketch([0.1 + 0.001 * number for number in range(1001)]).bounds(0.99)
    assert bounds is not None
    low, high = bounds
    assert low <= 1.09 <= high
    assert high / low <= ((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)) ** 2


def test_order_of_merging_does_not_matter() -> None:
    parts = [[0.1, 0.2], [3.0], [0.05, 7.0]]
    forwards, backwards = LatencySketch(), LatencySketch()
    for part in parts:
        forwards.merge(sketch(part))
    for part in reversed(parts):
        backwards.merge(sketch(part))
    assert [forwards.bounds(q) for q in QUANTILES] == [backwards.bounds(q) for q in QUANTILES]
    assert (forwards.count, forwards.mean_seconds) == (5, pytest.approx(2.07))


def test_merging_leaves_the_other_as_it_was() -> None:
    one, other = LatencySketch(), sketch([1.0])
    one.merge(other)
    one.add(2.0)
    assert (one.count, other.count) == (2, 1)
    assert other.bounds(1.0) == sketch([1.0]).bounds(1.0)


def test_an_empty_sketch_knows_nothing() -> None:
    assert (LatencySketch().bounds(0.5), LatencySketch().mean_seconds, LatencySketch().count) == (None, None, 0)
