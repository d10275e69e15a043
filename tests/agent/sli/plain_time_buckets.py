"""Good, bad and undecided events in time buckets, written plainly: the reference that the fast one must equal.

Each tier is a ring of running totals, so that any window is one subtraction. A window's edge inside a bucket takes
that bucket's part in proportion: exact for steady traffic, off by at most one bucket's events otherwise.
"""

from array import array
from math import floor

from agent.model import Counts, Events

TIERS = ((5.0, 4_464), (60.0, 4_380), (300.0, 27_000))  # (width in seconds, buckets): 6.2 h, 3.04 d, 93.75 d

NOTHING = Counts()


class TimeBuckets:
    """The events of one SLO. `began_at_seconds` is when counting began, None before the first event or `begin`.

    Memory: 0.86 MB (35,844 buckets of three counts of 8 bytes), whatever the traffic.
    """

    def __init__(self) -> None:
        self.began_at_seconds: float | None = None
        self.last_event_at_seconds: float | None = None
        self._totals = Counts()
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
            tier.add(events, self._totals)
        self._totals += events.counts

    def since(self, start_seconds: float) -> Counts:
        """Everything after `start_seconds`; beyond the longest tier, everything that is kept."""
        for tier in self._tiers:
            if tier.reaches(start_seconds):
                return tier.since(start_seconds, self._totals)
        return self._tiers[-1].since(start_seconds, self._totals)

    def total(self) -> Counts:
        """Everything ever counted."""
        return self._totals

    def coverage_ratio(self, window_seconds: float, now_seconds: float) -> float:
        """The part of the last `window_seconds` in which events were being counted."""
        if self.began_at_seconds is None:
            return 0.0
        return min(1.0, max(0.0, now_seconds - self.began_at_seconds) / window_seconds)


class _Tier:
    """A ring of running totals at the end of each bucket before the head, the newest bucket that has events.

    At the end of the head itself the running total is the total of all: most events touch nothing here.
    """

    def __init__(self, width_seconds: float, size: int) -> None:
        self.width = width_seconds
        self.size = size
        self.head: int | None = None
        self._good, self._bad, self._undecided = array("d"), array("d"), array("d")

    def reaches(self, start_seconds: float) -> bool:
        """Whether everything after `start_seconds` is still told apart from what came before."""
        return self.head is None or floor(start_seconds / self.width) > self.head - self.size + 1

    def add(self, events: Events, totals: Counts) -> None:
        """Count events; `totals` are those before them."""
        first, last = floor(events.from_seconds / self.width), floor(events.to_seconds / self.width)
        head = self.head
        if head is None or last > head:
            head = self._advance(last, totals)
        if first >= head:
            return
        span, counts = events.to_seconds - events.from_seconds, events.counts
        for bucket in range(max(first, head - self.size), head):
            share = 1.0 if bucket >= last else ((bucket + 1) * self.width - events.from_seconds) / span
            place = bucket % self.size
            self._good[place] += counts.good * share
            self._bad[place] += counts.bad * share
            self._undecided[place] += counts.undecided * share

    def _advance(self, bucket: int, totals: Counts) -> int:
        if self.head is None:
            self._good, self._bad, self._undecided = (array("d", bytes(8 * self.size)) for _ in range(3))
            self.head = bucket
        for index in range(max(self.head, bucket - self.size), bucket):
            place = index % self.size
            self._good[place], self._bad[place], self._undecided[place] = totals.good, totals.bad, totals.undecided
        self.head = max(self.head, bucket)
        return self.head

    def since(self, start_seconds: float, totals: Counts) -> Counts:
        if self.head is None:
            return Counts()
        bucket = floor(start_seconds / self.width)
        if bucket > self.head:
            return Counts()
        passed = (start_seconds - bucket * self.width) / self.width  # unix times have no digits to spare
        before, end = self._end(bucket - 1, totals), self._end(bucket, totals)
        rest = 1.0 - passed
        return Counts(
            max(0.0, totals.good - rest * before.good - passed * end.good),
            max(0.0, totals.bad - rest * before.bad - passed * end.bad),
            max(0.0, totals.undecided - rest * before.undecided - passed * end.undecided),
        )

    def _end(self, bucket: int, totals: Counts) -> Counts:
        """The running totals at the end of a bucket."""
        if self.head is None or bucket >= self.head:
            return totals
        if bucket < self.head - self.size:
            return NOTHING
        place = bucket % self.size
        return Counts(self._good[place], self._bad[place], self._undecided[place])
