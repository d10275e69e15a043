"""Percentiles of single values, and what a sample can say."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.stats.exact import exact_latency, exact_percentile
from agent.stats.interval import rank_interval, share_interval


@given(st.lists(st.floats(0, 100), min_size=1, max_size=60), st.sampled_from((0.5, 0.9, 0.95, 0.99)))
def test_an_exact_percentile_lies_between_its_neighbours_and_has_no_width(seconds: list[float], q: float) -> None:
    figure, ordered = exact_percentile(seconds, q), sorted(seconds)
    rank = q * (len(seconds) - 1)
    below, above = ordered[int(rank)], ordered[min(int(rank) + 1, len(ordered) - 1)]
    assert figure is not None
    assert figure.low == figure.value == figure.high
    assert figure.value == pytest.approx(below + (above - below) * (rank - int(rank)))


def test_percentiles_are_those_of_numpy() -> None:
    """numpy.percentile([1, 2, 3, 4], [50, 90]) is [2.5, 3.7]."""
    found = [exact_percentile([4.0, 1.0, 3.0, 2.0], q) for q in (0.5, 0.9)]
    assert [figure.value if figure else None for figure in found] == [pytest.approx(2.5), pytest.approx(3.7)]


def test_no_values_are_no_percentile() -> None:
    assert (exact_percentile([], 0.5), exact_latency([])) == (None, None)


def test_the_p99_of_twenty_values_has_no_upper_end() -> None:
    figure = exact_percentile([float(i) for i in range(20)], 0.99)
    assert figure is not None
    assert figure.ci_high is None


@pytest.mark.parametrize(("quantile", "count"), [(0.5, 20), (0.5, 200), (0.9, 200), (0.95, 400), (0.99, 2000)])
def test_the_rank_interval_holds_the_true_quantile_in_95_of_100_samples(quantile: float, count: int) -> None:
    """The true quantile of U(0, 1) is `quantile` itself. 600 samples: 95 % less three standard errors is 92.3 %."""
    dice = random.Random(1)  # noqa: S311  a simulation
    low, high = rank_interval(quantile, count)
    assert low is not None
    assert high is not None
    held = 0
    for _ in range(600):
        ordered = sorted(dice.random() for _ in range(count))
        held += ordered[low] <= quantile <= ordered[high]
    assert held / 600 > 0.923


def test_wilson_interval_of_a_published_example() -> None:
    """10 of 100: Wilson's 95 % interval is 0.0552 to 0.1744 (Brown, Cai and DasGupta 2001, formula 4)."""
    assert share_interval(0.1, 0.1, 100) == (pytest.approx(0.0552, abs=1e-4), pytest.approx(0.1744, abs=1e-4))


def test_an_interval_of_a_share_that_is_only_bounded_holds_both_bounds() -> None:
    low, high = share_interval(0.1, 0.6, 100)
    assert (low, high) == (share_interval(0.1, 0.1, 100)[0], share_interval(0.6, 0.6, 100)[1])
