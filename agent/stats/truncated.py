"""An exponential law fitted where only a stretch of it can be seen."""

from collections.abc import Sequence
from math import exp, expm1, log
from typing import NamedTuple

CANDIDATES = 80
SHORTEST, LONGEST = 0.02, 30.0  # of the stretch that is seen: a longer mean looks like an even spread


class Piece(NamedTuple):
    """So much of all that was seen lies between the two; shares need not add up to 1."""

    low: float
    high: float
    share: float


def truncated_exponential(pieces: Sequence[Piece]) -> float | None:
    """The mean of the exponential law that fits best, by likelihood, of values seen only within these pieces.

    Pieces are ascending and touch each other. None without any share, and where the shares do not fall (the best mean
    is the longest tried): then the law has no end that could be told from here.
    """
    shares = [piece.share for piece in pieces]
    if not pieces or sum(shares) <= 0 or len(pieces) < 2:
        return None
    first, last = pieces[0].low, pieces[-1].high
    span = last - first

    def likelihood(mean: float) -> float:
        whole = -expm1(-span / mean)
        return sum(
            share * log(max(1e-300, exp(-(low - first) / mean) * -expm1(-(high - low) / mean) / whole))
            for low, high, share in pieces
            if share > 0
        )

    means = [span * SHORTEST * (LONGEST / SHORTEST) ** (n / (CANDIDATES - 1)) for n in range(CANDIDATES)]
    best = max(means, key=likelihood)
    return None if best == means[-1] else best


def beyond(pieces: Sequence[Piece], mean: float) -> float:
    """What the exponential law of that mean has beyond the last piece, where it has these shares within them."""
    span = pieces[-1].high - pieces[0].low
    return sum(piece.share for piece in pieces) * exp(-span / mean) / -expm1(-span / mean)
