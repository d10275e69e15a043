"""Percentiles of many single values in little memory: a DDSketch, which can be merged and knows its error.

Source: Masson, Rim, Lee: "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees",
VLDB 2019; the library is Datadog's `ddsketch`.
"""

import math
from typing import Final

from ddsketch import LogCollapsingLowestDenseDDSketch

RELATIVE_ERROR: Final = 0.005
# Bins span a factor of (1 + 0.005) / (1 - 0.005) each: 1 us to 1 day takes 2520 of them, so none is ever folded.
_BINS: Final = 4096


class LatencySketch:
    """Durations in seconds, one at a time, or a whole other sketch; a value is off by at most RELATIVE_ERROR."""

    def __init__(self) -> None:
        self._sketch = LogCollapsingLowestDenseDDSketch(RELATIVE_ERROR, _BINS)

    @property
    def count(self) -> int:
        return int(self._sketch.count)

    @property
    def mean_seconds(self) -> float | None:
        """Exact; None when empty."""
        return self._sketch.sum / self._sketch.count if self._sketch.count else None

    def add(self, seconds: float) -> None:
        self._sketch.add(seconds)

    def merge(self, other: "LatencySketch") -> None:
        """As if every value of `other` had been added here."""
        self._sketch.merge(other._sketch)  # noqa: SLF001  of the same class

    def bounds(self, quantile: float) -> tuple[float, float] | None:
        """Between which values numpy's linear percentile of what was added lies, seconds; None when empty.

        That percentile lies between the values of the ranks below and above q(n-1), each known to RELATIVE_ERROR.
        """
        rank = quantile * (self.count - 1)
        below, above = self._value_at(math.floor(rank)), self._value_at(math.ceil(rank))
        if below is None or above is None:
            return None
        return below / (1 + RELATIVE_ERROR), above / (1 - RELATIVE_ERROR)

    def _value_at(self, rank: int) -> float | None:
        if self.count < 2:
            return self._sketch.get_quantile_value(0.5)
        within = (rank + 0.5) / (self.count - 1)  # the middle of the rank: a float's last bit decides nothing
        return self._sketch.get_quantile_value(min(1.0, within))
