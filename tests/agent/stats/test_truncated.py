"""An exponential law seen through a window: its mean, and what lies beyond."""

from itertools import pairwise
from math import exp

import pytest

from agent.stats.truncated import Piece, truncated_exponential


def pieces(mean: float, edges: tuple[float, ...]) -> list[Piece]:
    """What an exponential law of that mean has between the edges."""
    return [Piece(a, b, exp(-a / mean) - exp(-b / mean)) for a, b in pairwise(edges)]


@pytest.mark.parametrize("mean", [5.0, 20.0, 60.0])
def test_the_mean_is_found_though_only_the_first_half_minute_is_seen(mean: float) -> None:
    assert truncated_exponential(pieces(mean, (0, 1, 2, 5, 10, 20, 30))) == pytest.approx(mean, rel=0.1)


def test_an_even_spread_has_no_mean_that_could_be_told() -> None:
    assert truncated_exponential([Piece(0, 10, 1.0), Piece(10, 20, 1.0)]) is None


def test_nothing_seen_tells_nothing() -> None:
    assert truncated_exponential([]) is None
    assert truncated_exponential([Piece(0, 1, 0.0), Piece(1, 2, 0.0)]) is None
