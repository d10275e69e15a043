"""Percentiles of single values, as canaries give them: exact about these events, humble about the rest."""

from collections.abc import Sequence

from agent.model import Figure, Latency
from agent.stats.buckets import PERCENTILES
from agent.stats.interval import rank_interval


def exact_percentile(values: Sequence[float], quantile: float) -> Figure | None:
    """numpy's linear percentile of the values; None when there are none."""
    if not values:
        return None
    ordered = sorted(values)
    rank = quantile * (len(ordered) - 1)
    below = int(rank)
    above = min(below + 1, len(ordered) - 1)
    value = ordered[below] + (ordered[above] - ordered[below]) * (rank - below)
    low, high = rank_interval(quantile, len(ordered))
    ci_low = None if low is None else ordered[low]
    ci_high = None if high is None else ordered[high]
    return Figure(value, value, value, len(ordered), ci_low, ci_high)


def exact_latency(values: Sequence[float]) -> Latency | None:
    """The percentiles people ask for; None without values."""
    if not values:
        return None
    p50, p90, p95, p99 = (exact_percentile(values, quantile) for quantile in PERCENTILES)
    return Latency(p50, p90, p95, p99, sum(values) / len(values), len(values))
