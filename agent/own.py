"""What our canaries have in an increment."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent.raw import SignalKey
from agent.stats.buckets import Buckets


@dataclass(frozen=True, slots=True)
class OwnBuckets:
    """Our observations in one histogram: as if each lay as low as it can, and as high as it can."""

    low: Buckets
    high: Buckets

    def __add__(self, other: "OwnBuckets") -> "OwnBuckets":
        """Both together, on the edges they share."""
        return OwnBuckets(self.low + other.low, self.high + other.high)


@dataclass(frozen=True, slots=True)
class Own:
    """What is ours in one increment. `in_flight` of our requests had not ended, `unanswered` had no token yet."""

    counters: Mapping[SignalKey, float] = field(default_factory=dict)
    histograms: Mapping[str, OwnBuckets] = field(default_factory=dict)
    in_flight: float = 0.0
    unanswered: float = 0.0


def own_together(before: Own | None, later: Own | None) -> Own | None:
    """What is ours in two increments that follow each other, whose histograms have the same edges."""
    if before is None or later is None:
        return later if before is None else replace(before, in_flight=0.0, unanswered=0.0)
    counters, histograms = dict(before.counters), dict(before.histograms)
    for place, part in later.counters.items():
        counters[place] = counters.get(place, 0.0) + part
    for signal, ours in later.histograms.items():
        known = histograms.get(signal)
        histograms[signal] = ours if known is None else known + ours
    return replace(later, counters=counters, histograms=histograms)
