"""Least squares with coefficients that cannot be negative, for the few unknowns of a step-time law."""

from collections.abc import Sequence
from itertools import combinations
from math import sqrt

Row = Sequence[float]
MOST_UNKNOWNS = 4  # every set of unknowns is tried: 15 small systems
SINGULAR = 1e-10  # of a column of length 1, what the others leave of its square


def nonnegative_least_squares(
    rows: Sequence[Row], targets: Sequence[float], weights: Sequence[float]
) -> tuple[float, ...]:
    """The x >= 0 with the least weighted squared error of rows·x against targets; one entry per column.

    The optimum is the plain least-squares solution on the columns it uses (the Kuhn-Tucker conditions of Lawson and
    Hanson, Solving Least Squares Problems, ch. 23), so with at most four columns every choice of them is solved and the
    best one without a negative entry taken. Where columns say the same, one of them carries all. Without rows: all 0.
    """
    size = len(rows[0]) if rows else 0
    if size > MOST_UNKNOWNS:
        raise ValueError(f"{size} unknowns; at most {MOST_UNKNOWNS} are solved for")
    gram, right = normal_equations(rows, targets, weights)
    best, best_gain = (0.0,) * size, 0.0
    for count in range(1, size + 1):
        for chosen in combinations(range(size), count):
            inverse = inverse_of(gram, chosen)
            if inverse is None:
                continue
            found = [sum(inverse[a][b] * right[j] for b, j in enumerate(chosen)) for a in range(count)]
            gain = sum(value * right[j] for value, j in zip(found, chosen, strict=True))  # squared error taken away
            if min(found) >= 0 and gain > best_gain:
                best_gain = gain
                best = tuple(found[chosen.index(j)] if j in chosen else 0.0 for j in range(size))
    return best


def normal_equations(
    rows: Sequence[Row], targets: Sequence[float], weights: Sequence[float]
) -> tuple[list[list[float]], list[float]]:
    """(A'WA, A'Wy) of the weighted rows."""
    size = len(rows[0]) if rows else 0
    columns = [[row[j] for row in rows] for j in range(size)]
    weighted = [[w * value for w, value in zip(weights, column, strict=True)] for column in columns]
    gram = [[sum(map(float.__mul__, left, right)) for right in columns] for left in weighted]
    return gram, [sum(map(float.__mul__, left, map(float, targets))) for left in weighted]


def inverse_of(gram: Sequence[Sequence[float]], chosen: Sequence[int]) -> list[list[float]] | None:
    """Inverse of the part of A'WA that belongs to these columns; None where they are collinear, or one is all 0."""
    scale = [sqrt(gram[j][j]) for j in chosen]
    if min(scale) <= 0:
        return None
    size = len(chosen)
    work = [
        [gram[j][k] / scale[a] / scale[b] for b, k in enumerate(chosen)] + [float(a == c) for c in range(size)]
        for a, j in enumerate(chosen)
    ]
    for a in range(size):
        pivot = work[a][a]  # of a positive definite matrix the pivots are what earlier columns leave
        if pivot < SINGULAR:
            return None
        work[a] = [value / pivot for value in work[a]]
        for b in range(size):
            if b != a and work[b][a]:
                factor = work[b][a]
                work[b] = [value - factor * above for value, above in zip(work[b], work[a], strict=True)]
    return [[work[a][size + b] / scale[a] / scale[b] for b in range(size)] for a in range(size)]
