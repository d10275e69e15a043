"""How much of the prompts comes again, and after what time: what a cache of any size would find.

A cache that forgets the least recently used remembers everything for about the same time (Che's approximation), so it
finds what comes again within that time. To remember for T seconds it has to hold what is asked per second times the
integral of (1 - found(t)) from 0 to T. Shapes of laws are fitted on what was seen, and beyond it they are estimates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf

STEPS = 400  # of the search for the time that a size remembers
LONGEST_SECONDS = 86_400.0
ENOUGH = 0.9  # of all that could ever be found: the working set


@dataclass(frozen=True, slots=True)
class ReuseCurve:
    """Found part of all prompt tokens by how long a cache remembers.

    `seen` are (seconds, part), ascending, as counted; the caches of now remember `remembered_seconds`. `more` is what
    an endless memory would find beyond the last of them, `mean_seconds` later on average; None: nothing tells. `source`
    says in words what the curve stands on.
    """

    remembered_seconds: float
    seen: tuple[tuple[float, float], ...]
    more: float | None
    mean_seconds: float
    source: str

    @property
    def ceiling(self) -> float | None:
        """What an endless memory finds; None where nothing tells."""
        return None if self.more is None else self.seen[-1][1] + self.more

    def found_ratio(self, seconds: float) -> float | None:
        """Part of the prompt tokens that a cache finds that remembers so long; None beyond what can be told."""
        before = (0.0, 0.0)
        for point in self.seen:
            if seconds <= point[0]:
                share = (seconds - before[0]) / (point[0] - before[0]) if point[0] > before[0] else 1.0
                return before[1] + share * (point[1] - before[1])
            before = point
        if self.more is None:
            return None
        return before[1] + self.more * (1 - exp(-(seconds - before[0]) / self.mean_seconds))

    def held_seconds(self, seconds: float) -> float | None:
        """What is held to remember so long, in seconds of what is asked; None beyond what can be told."""
        grid = _grid(seconds)
        found = [self.found_ratio(at) for at in grid]
        total = 0.0
        for (a, left), (b, right) in pairwise(zip(grid, found, strict=True)):
            if left is None or right is None:
                return None
            total += (b - a) * (1 - (left + right) / 2)
        return total

    def seconds_of(self, held_seconds: float) -> float:
        """How long is remembered by a cache that holds so many seconds of what is asked; infinite where all fits."""
        total, grid = 0.0, _grid(LONGEST_SECONDS)
        for a, b in pairwise(grid):
            middle = self.found_ratio((a + b) / 2)
            if middle is None:
                return b
            step = (b - a) * (1 - middle)
            if total + step >= held_seconds:
                return a + (b - a) * (held_seconds - total) / step
            total += step
        return inf

    def working_set_seconds(self) -> float | None:
        """What is held to find nearly all that comes again, in seconds of what is asked; None: nothing tells."""
        ceiling = self.ceiling
        if ceiling is None:
            return None
        at = next(
            (seconds for seconds in _grid(LONGEST_SECONDS) if (self.found_ratio(seconds) or 0.0) >= ENOUGH * ceiling),
            LONGEST_SECONDS,
        )
        return self.held_seconds(at)


def _grid(seconds: float) -> Sequence[float]:
    """From 0 to so many seconds, the finer the earlier."""
    return [seconds * (n / STEPS) ** 3 for n in range(STEPS + 1)]
