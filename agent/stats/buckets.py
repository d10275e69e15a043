"""A histogram over one stretch of time, and what it can prove: percentiles and shares with bounds."""

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add

from agent.model import Counts, Figure, Latency
from agent.stats.interval import rank_interval, share_interval

PERCENTILES = (0.50, 0.90, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Observations per bucket: `counts[i]` lie in (edges[i-1], edges[i]], the first in [0, edges[0]].

    `edges[-1]` is infinite. `total` is the sum of the observations, None where it is not known.
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    total: float | None

    @property
    def count(self) -> float:
        return sum(self.counts)

    def __add__(self, other: "Buckets") -> "Buckets":
        """Both together, on the edges they share: where layouts differ, bounds widen and nothing is guessed."""
        total = None if self.total is None or other.total is None else self.total + other.total
        if self.edges == other.edges:
            return Buckets(self.edges, tuple([count or 0.0 for count in map(add, self.counts, other.counts)]), total)
        shared = tuple(sorted(set(self.edges) & set(other.edges)))
        left, right = self.on(shared), other.on(shared)
        return Buckets(shared, tuple(a + b for a, b in zip(left.counts, right.counts, strict=True)), total)

    def __sub__(self, part: "Buckets") -> "Buckets":
        """Without a part of the observations, which must be among these, on edges that have all of this one's."""
        part = part if part.edges == self.edges else part.on(self.edges)
        total = None if self.total is None or part.total is None else max(0.0, self.total - part.total)
        counts = tuple(max(0.0, whole - less) for whole, less in zip(self.counts, part.counts, strict=True))
        return Buckets(self.edges, counts, total)

    def on(self, edges: tuple[float, ...]) -> "Buckets":
        """The same observations on fewer edges (a subset of this one's)."""
        counts, running, place = [], 0.0, 0
        for edge, count in zip(self.edges, self.counts, strict=True):
            running += count
            if edge == edges[place]:
                counts.append(running)
                running, place = 0.0, place + 1
        return Buckets(edges, tuple(counts), self.total)


def merged(parts: Iterable[Buckets]) -> Buckets | None:
    """All parts together; None when there are none. Parts of one layout are added column by column, which is fast."""
    layouts: dict[tuple[float, ...], list[Buckets]] = {}
    edges, alike = None, list[Buckets]()
    for part in parts:
        if part.edges is not edges:  # from page to page they are the same object
            edges = part.edges
            alike = layouts.setdefault(edges, [])
        alike.append(part)
    return reduce(add, map(_column_sums, layouts.values())) if layouts else None


def _column_sums(parts: list[Buckets]) -> Buckets:
    if len(parts) <= 2:  # a pair is added faster as one
        return reduce(add, parts)
    totals = [part.total for part in parts if part.total is not None]
    counts = tuple([count or 0.0 for count in map(sum, zip(*(part.counts for part in parts), strict=True))])
    return Buckets(parts[0].edges, counts, sum(totals) if len(totals) == len(parts) else None)


def percentile(buckets: Buckets, quantile: float, *, are_independent: bool = True) -> Figure | None:
    """numpy's linear percentile over the n observations, as far as buckets can tell; None when there are none.

    `low` is the lower edge of the bucket with rank floor(q(n-1)), `high` the upper edge of that with rank ceil(q(n-1)).
    Beyond the last finite edge there is no `high` and no `value`: the observation is only known to be larger.
    Observations that are not independent, such as the gaps of one batch, have no sampling interval.
    """
    count = round(buckets.count)
    if count <= 0:
        return None
    rank = quantile * (count - 1)
    low = _bucket_of(buckets, math.floor(rank))[0]
    high = _bucket_of(buckets, math.ceil(rank))[1]
    low_rank, high_rank = rank_interval(quantile, count) if are_independent else (None, None)
    ci_low = None if low_rank is None else _bucket_of(buckets, low_rank)[0]
    ci_high = None if high_rank is None else _finite(_bucket_of(buckets, high_rank)[1])
    value = None if math.isinf(high) else min(max(_interpolate(buckets, rank), low), high)
    return Figure(value, low, _finite(high), count, ci_low, ci_high)


def latency(buckets: Buckets | None, *, are_independent: bool = True) -> Latency | None:
    """The percentiles people ask for; None without observations."""
    if buckets is None or round(buckets.count) <= 0:
        return None
    p50, p90, p95, p99 = (percentile(buckets, quantile, are_independent=are_independent) for quantile in PERCENTILES)
    return Latency(p50, p90, p95, p99, _mean(buckets), buckets.count)


def _mean(buckets: Buckets) -> float | None:
    """Sum over count, unless the buckets disprove it: vLLM observes absurd phase times for failed requests."""
    if buckets.total is None:
        return None
    lowers = (0.0, *buckets.edges)
    least = sum(lower * count for lower, count in zip(lowers, buckets.counts, strict=False))
    most = sum(edge * count for edge, count in zip(buckets.edges, buckets.counts, strict=True) if count > 0)
    slack = 1e-6 * (1.0 + least)
    return buckets.total / buckets.count if least - slack <= buckets.total <= most + slack else None


def split_at(buckets: Buckets, threshold: float) -> Counts:
    """Observations at most `threshold` (good), above it (bad), and in the bucket around it (undecided)."""
    return Counts(*numbers_at(buckets, threshold))


def numbers_at(buckets: Buckets, threshold: float) -> tuple[float, float, float]:
    """`split_at` without its noun, for the many."""
    edges, counts = buckets.edges, buckets.counts
    inside = bisect_right(edges, threshold)  # so many buckets end at or below it
    good = sum(counts[:inside], 0.0)
    if threshold <= 0 or (inside and edges[inside - 1] == threshold):
        return good, sum(counts[inside:], 0.0), 0.0
    return good, sum(counts[inside + 1 :], 0.0), sum(counts[inside : inside + 1], 0.0)


def share_over(buckets: Buckets, threshold: float, *, are_independent: bool = True) -> Figure | None:
    """Share of observations above `threshold` with its bounds; None when there are none.

    `value` is exact on a bucket edge; inside a bucket it is that of observations spread evenly over it, and unknown
    in the last one.
    """
    counts = split_at(buckets, threshold)
    if counts.total <= 0:
        return None
    low, high = counts.bad / counts.total, (counts.bad + counts.undecided) / counts.total
    value = low if counts.undecided == 0 else _spread(buckets, threshold, counts)
    interval = share_interval(low, high, counts.total) if are_independent else (None, None)
    return Figure(value, low, high, counts.total, *interval)


def _spread(buckets: Buckets, threshold: float, counts: Counts) -> float | None:
    lower = 0.0
    for edge in buckets.edges:
        if edge > threshold:
            above = (edge - threshold) / (edge - lower)
            return None if math.isinf(edge) else (counts.bad + counts.undecided * above) / counts.total
        lower = edge
    return None


def _bucket_of(buckets: Buckets, rank: int) -> tuple[float, float]:
    """Edges of the bucket that holds the observation of this rank (0 is the smallest)."""
    running, lower = 0.0, 0.0
    last = (0.0, math.inf)
    for edge, count in zip(buckets.edges, buckets.counts, strict=True):
        running += count
        if count > 0:
            last = (lower, edge)
        if running > rank + 1e-9:
            return (lower, edge)
        lower = edge
    return last


def _interpolate(buckets: Buckets, rank: float) -> float:
    """The value at this rank when the observations of a bucket are spread evenly over it."""
    running, lower = 0.0, 0.0
    for edge, count in zip(buckets.edges, buckets.counts, strict=True):
        if count > 0 and running + count > rank:
            return lower + (edge - lower) * (rank - running + 0.5) / count if math.isfinite(edge) else lower
        running, lower = running + count, edge
    return lower


def _finite(edge: float) -> float | None:
    return edge if math.isfinite(edge) else None
