"""A cumulative histogram as Prometheus clients keep it: per-bucket counts, a sum, a total."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts per bucket over ascending upper edges; the last bucket (+Inf) is implicit.

    An observation equal to an edge belongs to that edge's bucket.
    """

    __slots__ = ("count", "counts", "edges", "total")

    def __init__(self, edges: Sequence[float]) -> None:
        self.edges = tuple(edges)
        self.counts = [0] * (len(self.edges) + 1)
        self.count = 0
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count `value` so many times."""
        self.counts[bisect_left(self.edges, value)] += times
        self.count += times
        self.total += value * times

    def observe_line(self, first: float, increment: float, steps: int, times: int) -> None:
        """Count first, first + increment, ... (`steps` values), each so many times.

        What a run of decode steps does: step i lasts first + i·increment. `increment` is never negative.
        """
        at = bisect_left(self.edges, first)
        last = first + (steps - 1) * increment
        self.count += steps * times
        self.total += steps * (first + last) / 2 * times
        left = steps
        while at < len(self.edges) and last > self.edges[at]:
            here = min(left, int((self.edges[at] - first) / increment) + 1 - (steps - left))
            self.counts[at] += here * times
            left -= here
            at += 1
        self.counts[at] += left * times

    def cumulative(self) -> list[int]:
        """Observations at or below each edge, the last entry being all of them."""
        sums, total = [], 0
        for here in self.counts:
            total += here
            sums.append(total)
        return sums


def one_two_five(largest: int) -> tuple[float, ...]:
    """The 1-2-5 series up to `largest`: how vLLM makes its token buckets from the longest model length."""
    edges: list[float] = []
    power = 1
    while True:
        for mantissa in (1, 2, 5):
            if mantissa * power > largest:
                return tuple(edges)
            edges.append(float(mantissa * power))
        power *= 10
