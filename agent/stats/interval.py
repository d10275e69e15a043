"""95 % sampling intervals: what these events say about the ones that did not happen to be measured."""

import math

Z_95 = 1.959963984540054  # 97.5 % point of the normal distribution


def rank_interval(quantile: float, count: int) -> tuple[int | None, int | None]:
    """Ranks (0-based) between which the true quantile lies with 95 % confidence; None on a side the sample cannot show.

    Order-statistic interval with the normal approximation to the binomial (Conover, Practical Nonparametric
    Statistics, 3.2); the p99 of 20 observations has no upper end.
    """
    middle = quantile * count
    spread = Z_95 * math.sqrt(count * quantile * (1 - quantile))
    low, high = math.floor(middle - spread), math.ceil(middle + spread)
    return (low if low >= 0 else None), (high if high <= count - 1 else None)


def share_interval(low: float, high: float, count: float) -> tuple[float, float]:
    """Wilson's interval for a share of `count` (> 0) events that is only known to lie between `low` and `high`.

    Source: Wilson (1927); it stays within 0..1 and is right for shares near 0, where an error budget lives.
    """
    return _wilson(low, count)[0], _wilson(high, count)[1]


def _wilson(share: float, count: float) -> tuple[float, float]:
    square = Z_95 * Z_95 / count
    centre = (share + square / 2) / (1 + square)
    half = Z_95 / (1 + square) * math.sqrt(max(share * (1 - share), 0.0) / count + square / (4 * count))
    return max(0.0, centre - half), min(1.0, centre + half)
