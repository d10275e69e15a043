"""A histogram of which not every observation's bucket is known: figures that hold wherever the unknown ones lie."""

from dataclasses import dataclass

from agent.model import Figure, Latency
from agent.stats.buckets import Buckets, latency, share_over

LARGEST_MEAN_SPREAD = 0.1  # a mean whose bounds lie further apart, as a share of it, is not known


@dataclass(frozen=True, slots=True)
class Between:
    """The same number of observations twice: as low as they can lie, and as high. Equal where all is known."""

    low: Buckets
    high: Buckets


def latency_between(buckets: Between | None, *, are_independent: bool = True) -> Latency | None:
    """As `latency`, with bounds that hold for both; None without observations."""
    if buckets is None:
        return None
    low = latency(buckets.low, are_independent=are_independent)
    if buckets.low is buckets.high or low is None:
        return low
    high = latency(buckets.high, are_independent=are_independent)
    if high is None:
        return None
    return Latency(
        figure_between(low.p50, high.p50),
        figure_between(low.p90, high.p90),
        figure_between(low.p95, high.p95),
        figure_between(low.p99, high.p99),
        _mean(low.mean, high.mean),
        low.count,
    )


def share_over_between(buckets: Between | None, threshold: float, *, are_independent: bool = True) -> Figure | None:
    """As `share_over`, with bounds that hold for both."""
    if buckets is None:
        return None
    low = share_over(buckets.low, threshold, are_independent=are_independent)
    if buckets.low is buckets.high:
        return low
    return figure_between(low, share_over(buckets.high, threshold, are_independent=are_independent))


def figure_between(one: Figure | None, other: Figure | None) -> Figure | None:
    """What holds whichever of the two is true; the value in their middle."""
    if one is None or other is None:
        return None
    return Figure(
        None if one.value is None or other.value is None else (one.value + other.value) / 2,
        None if one.low is None or other.low is None else min(one.low, other.low),
        None if one.high is None or other.high is None else max(one.high, other.high),
        one.count,
        None if one.ci_low is None or other.ci_low is None else min(one.ci_low, other.ci_low),
        None if one.ci_high is None or other.ci_high is None else max(one.ci_high, other.ci_high),
    )


def _mean(low: float | None, high: float | None) -> float | None:
    if low is None or high is None:
        return None
    middle = (low + high) / 2
    return middle if abs(high - low) <= LARGEST_MEAN_SPREAD * middle else None
