"""Non-negative least squares: exact on clean data, never negative, and no better choice of columns exists."""

from random import Random

import pytest

from agent.stats.least_squares import inverse_of, nonnegative_least_squares, normal_equations


def test_clean_data_gives_the_coefficients_back() -> None:
    rows = [(1.0, 2.0, 0.5), (1.0, 0.0, 4.0), (1.0, 7.0, 1.0), (1.0, 3.0, 9.0)]
    targets = [3 + 2 * row[1] + 0.25 * row[2] for row in rows]
    assert nonnegative_least_squares(rows, targets, [1.0] * 4) == pytest.approx((3.0, 2.0, 0.25))


def test_what_would_be_negative_is_zero_and_the_rest_is_fitted_without_it() -> None:
    """y = 2 - x: the slope may not be negative, so the mean of y remains: (2 + 1 + 0) / 3 = 1."""
    base, slope = nonnegative_least_squares([(1.0, 0.0), (1.0, 1.0), (1.0, 2.0)], [2.0, 1.0, 0.0], [1.0] * 3)
    assert (base, slope) == (pytest.approx(1.0), 0.0)


def test_a_column_told_twice_is_carried_by_one() -> None:
    first, second = nonnegative_least_squares([(1.0, 2.0), (2.0, 4.0)], [3.0, 6.0], [1.0, 1.0])
    assert first + 2 * second == pytest.approx(3.0)
    assert 0.0 in (first, second)


def test_a_heavy_row_pulls_the_answer() -> None:
    """One unknown: the weighted mean of 1 (weight 9) and 2 (weight 1)."""
    assert nonnegative_least_squares([(1.0,), (1.0,)], [1.0, 2.0], [9.0, 1.0]) == pytest.approx((1.1,))


def test_nothing_gives_nothing_and_five_unknowns_are_refused() -> None:
    assert nonnegative_least_squares([], [], []) == ()
    with pytest.raises(ValueError, match="5 unknowns"):
        nonnegative_least_squares([(1.0,) * 5], [1.0], [1.0])


@pytest.mark.parametrize("seed", range(20))
def test_the_optimum_satisfies_the_kuhn_tucker_conditions(seed: int) -> None:
    """Lawson and Hanson, ch. 23: the gradient A'W(y - Ax) is 0 where x > 0, and not positive where x = 0."""
    rng = Random(seed)  # noqa: S311 - repeatable
    rows = [tuple(rng.uniform(0, 10) for _ in range(4)) for _ in range(30)]
    targets = [sum(c * x for c, x in zip((3, -1, 0.5, 0), row, strict=True)) + rng.gauss(0, 1) for row in rows]
    weights = [rng.uniform(0.5, 2) for _ in rows]
    found = nonnegative_least_squares(rows, targets, weights)
    gram, right = normal_equations(rows, targets, weights)
    gradient = [right[j] - sum(gram[j][k] * found[k] for k in range(4)) for j in range(4)]
    assert min(found) >= 0
    for value, slope in zip(found, gradient, strict=True):
        assert slope == pytest.approx(0, abs=1e-6 * max(map(abs, right))) if value > 0 else slope <= 1e-6


def test_the_inverse_is_one() -> None:
    gram = [[4.0, 1.0], [1.0, 3.0]]
    inverse = inverse_of(gram, (0, 1))
    assert inverse is not None
    product = [[sum(gram[a][c] * inverse[c][b] for c in range(2)) for b in range(2)] for a in range(2)]
    assert [value for row in product for value in row] == pytest.approx([1.0, 0.0, 0.0, 1.0])
    assert inverse_of([[1.0, 1.0], [1.0, 1.0]], (0, 1)) is None
