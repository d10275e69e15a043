"""Two latencies of the same requests, one after the other: what their two histograms prove about the sum.

Which first part belongs to which second part is not known. Of n sums at most (n over a first) + (n over a second) are
over a + b, and at most (n up to a) + (n up to b) are not: so each pair of edges bounds ranks, and the best pair counts
(Makarov's bounds, on ranks).
"""

import math
from itertools import accumulate

from agent.model import Counts, Figure, Latency
from agent.stats.buckets import PERCENTILES, Buckets

TINY = 1e-9  # what a difference of two edges may be wrong by


def added_latency(first: Buckets | None, second: Buckets | None) -> Latency | None:
    """Percentiles of the sums, as bounds: no value. The mean is the sum of the means. None without observations.

    As many sums as `second` has observations; where `first` has more or fewer (requests in between), its shares count.
    """
    if first is None or second is None or first.count <= 0 or second.count <= 0:
        return None
    p50, p90, p95, p99 = (_percentile(first, second, quantile) for quantile in PERCENTILES)
    return Latency(p50, p90, p95, p99, _mean(first, second), second.count)


def added_over(first: Buckets, second: Buckets, threshold: float) -> Counts:
    """Sums at most `threshold` for certain (good), above it for certain (bad), and those of which it is not known."""
    n, splits = second.count, [threshold, *(edge for edge in first.edges if edge <= threshold)]
    splits += [threshold - edge for edge in second.edges if edge <= threshold]
    over = min(_over(first, a) * n + _over(second, threshold - a) * n for a in splits)
    certain = max(_surely_over(first, threshold), _surely_over(second, threshold)) * n
    good = max(0.0, n - over)
    bad = min(certain, n - good)
    return Counts(good, bad, n - good - bad)


def _percentile(first: Buckets, second: Buckets, quantile: float) -> Figure:
    n = second.count
    low_rank, high_rank = math.floor(quantile * (n - 1)), math.ceil(quantile * (n - 1))
    firsts, seconds = _steps(first), _steps(second)
    low = max(a + b for a, under_a in firsts for b, under_b in seconds if (under_a + under_b) * n <= low_rank + 1e-9)
    highs = [
        a + b
        for a, under_a in firsts
        for b, under_b in seconds
        if (2 - under_a - under_b) * n <= n - high_rank - 1 + 1e-9
    ]
    high = min(highs, default=math.inf)
    return Figure(None, low, high if math.isfinite(high) else None, n)


def _steps(buckets: Buckets) -> list[tuple[float, float]]:
    """(edge, share at most that), from 0 on; without the open last bucket."""
    shares = [running / buckets.count for running in accumulate(buckets.counts)]
    return [(0.0, 0.0), *((e, s) for e, s in zip(buckets.edges, shares, strict=True) if math.isfinite(e))]


def _over(buckets: Buckets, threshold: float) -> float:
    """The share that may be over the threshold."""
    return 1 - max((share for edge, share in _steps(buckets) if edge <= threshold + TINY), default=0.0)


def _surely_over(buckets: Buckets, threshold: float) -> float:
    """The share that is over the threshold for certain."""
    return 1 - min((share for edge, share in _steps(buckets) if edge >= threshold), default=1.0)


def _mean(first: Buckets, second: Buckets) -> float | None:
    if first.total is None or second.total is None:
        return None
    return first.total / first.count + second.total / second.count
