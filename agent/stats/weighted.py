"""Percentiles, means and shares of values that each count so many times."""

from collections.abc import Iterable, Sequence

Weighted = Sequence[tuple[float, float]]  # (value, how often)


def weighted_mean(values: Weighted) -> float | None:
    """None without values."""
    count = sum(times for _, times in values)
    return sum(value * times for value, times in values) / count if count else None


def weighted_percentiles(values: Weighted, quantiles: Iterable[float]) -> list[float | None]:
    """For each quantile (0..1) the smallest value that this share of all is not above; None without values."""
    ordered, count = sorted(values), sum(times for _, times in values)
    if not count:
        return [None for _ in quantiles]
    found: list[float | None] = []
    for quantile in quantiles:
        running, wanted = 0.0, quantile * count
        for value, times in ordered:
            running += times
            if running >= wanted:
                found.append(value)
                break
        else:
            found.append(ordered[-1][0])
    return found


def weighted_share_over(values: Weighted, threshold: float) -> float | None:
    """Share of the values above the threshold; None without values."""
    count = sum(times for _, times in values)
    return sum(times for value, times in values if value > threshold) / count if count else None
