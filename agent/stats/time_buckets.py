"""Good, bad and undecided events in time buckets, fine for hours and coarse for months. Counts, never ratios.

Each tier is a ring of running totals, so that any window is one subtraction. A window's edge inside a bucket takes
that bucket's part in proportion: exact for steady traffic, off by at most one bucket's events otherwise.
"""

from array import array
from math import floor

from agent.model import Counts, Events

TIERS = ((5.0, 4_464), (60.0, 4_380), (300.0, 27_000))  # (width in seconds, buckets): 6.2 h, 3.04 d, 93.75 d


class TimeBuckets:
    """The events of one SLO. `began_at_seconds` is when counting began, None before the first event or `begin`."""

    def __init__(self) -> None:
        self.began_at_seconds: float | None = None
        self.last_event_at_seconds: float | None = None
        self._tiers = [_Tier(width, size) for width, size in TIERS]

    def begin(self, at_seconds: float) -> None:
        """From here on silence means that nothing happened."""
        if self.began_at_seconds is None or at_seconds < self.began_at_seconds:
            self.began_at_seconds = at_seconds

    def add(self, events: Events) -> None:
        """Count events, spread evenly over the time in which they arose."""
        if events.counts.total <= 0:
            return
        self.begin(events.from_seconds)
        if self.last_event_at_seconds is None or events.to_seconds > self.last_event_at_seconds:
            self.last_event_at_seconds = events.to_seconds
        for tier in self._tiers:
            tier.add(events)

    def since(self, start_seconds: float) -> Counts:
        """Everything after `start_seconds`; beyond the longest tier, everything that is kept."""
        tier = next((tier for tier in self._tiers if tier.reaches(start_seconds)), self._tiers[-1])
        return tier.since(start_seconds)

    def total(self) -> Counts:
        """Everything ever counted."""
        return Counts(*self._tiers[0].totals)

    def coverage_ratio(self, window_seconds: float, now_seconds: float) -> float:
        """The part of the last `window_seconds` in which events were being counted."""
        if self.began_at_seconds is None:
            return 0.0
        return min(1.0, max(0.0, now_seconds - self.began_at_seconds) / window_seconds)


class _Tier:
    """A ring of running totals at the end of each bucket."""

    def __init__(self, width_seconds: float, size: int) -> None:
        self.width = width_seconds
        self.size = size
        self.head: int | None = None
        self.totals = [0.0, 0.0, 0.0]
        self._ends = [array("d"), array("d"), array("d")]

    def reaches(self, start_seconds: float) -> bool:
        """Whether everything after `start_seconds` is still told apart from what came before."""
        if self.head is None:
            return True
        return floor(start_seconds / self.width) > self.head - self.size + 1

    def add(self, events: Events) -> None:
        first, last = floor(events.from_seconds / self.width), floor(events.to_seconds / self.width)
        self._advance(last)
        assert self.head is not None  # noqa: S101  _advance saw to it
        oldest, span = self.head - self.size + 1, events.to_seconds - events.from_seconds
        shares = [
            ((bucket + 1) * self.width - events.from_seconds) / span for bucket in range(max(first, oldest), last)
        ]
        shares += [1.0] * (self.head - max(last, oldest) + 1)  # what has come by the end of each bucket up to the head
        start = self.head + 1 - len(shares)
        for kind, count in enumerate((events.counts.good, events.counts.bad, events.counts.undecided)):
            if count:
                self.totals[kind] += count
                ends = self._ends[kind]
                for index, share in enumerate(shares, start):
                    ends[index % self.size] += count * share

    def _advance(self, bucket: int) -> None:
        if self.head is None:
            self.head = bucket
            self._ends = [array("d", bytes(8 * self.size)) for _ in range(3)]
            return
        for index in range(max(self.head + 1, bucket - self.size + 1), bucket + 1):
            for kind in range(3):
                self._ends[kind][index % self.size] = self.totals[kind]
        self.head = max(self.head, bucket)

    def since(self, start_seconds: float) -> Counts:
        if self.head is None:
            return Counts()
        bucket = floor(start_seconds / self.width)
        if bucket > self.head:
            return Counts()
        passed = (start_seconds - bucket * self.width) / self.width  # unix times have no digits to spare
        good, bad, undecided = (self._after(kind, bucket, passed) for kind in range(3))
        return Counts(good, bad, undecided)

    def _after(self, kind: int, bucket: int, passed: float) -> float:
        before, end = self._end(kind, bucket - 1), self._end(kind, bucket)
        return max(0.0, self.totals[kind] - before - passed * (end - before))

    def _end(self, kind: int, bucket: int) -> float:
        assert self.head is not None  # noqa: S101  only asked when there is data
        oldest = self.head - self.size + 1
        return self._ends[kind][bucket % self.size] if bucket >= oldest else 0.0
