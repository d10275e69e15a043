"""Good, bad and undecided events in time buckets, fine for hours and coarse for months. Counts, never ratios.

Each tier is a ring of running totals, so that any window is one subtraction. A window's edge inside a bucket takes
that bucket's part in proportion: exact for steady traffic, off by at most one bucket's events otherwise.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import floor, inf

from agent.model import Counts, Events

TIERS = ((5.0, 4_464), (60.0, 4_380), (300.0, 27_000))  # (width in seconds, buckets): 6.2 h, 3.04 d, 93.75 d
CHUNK = 64  # buckets that are written to a state file together

Numbers = tuple[float, float, float]  # good, bad, undecided
NOTHING = (0.0, 0.0, 0.0)


class TimeBuckets:
    """The events of one SLO. `began_at_seconds` is when counting began, None before the first event or `begin`.

    Memory: 0.86 MB (35,844 buckets of three counts of 8 bytes), whatever the traffic.
    """

    def __init__(self) -> None:
        self.began_at_seconds: float | None = None
        self.last_event_at_seconds: float | None = None
        self._totals: Numbers = NOTHING
        self._tiers = [_Tier(width, size) for width, size in TIERS]

    def begin(self, at_seconds: float) -> None:
        """From here on silence means that nothing happened."""
        if self.began_at_seconds is None or at_seconds < self.began_at_seconds:
            self.began_at_seconds = at_seconds

    def add(self, events: Events) -> None:
        """Count events, spread evenly over the time in which they arose."""
        counts = events.counts
        self.count(events.from_seconds, events.to_seconds, (counts.good, counts.bad, counts.undecided))

    def count(self, from_seconds: float, to_seconds: float, numbers: Numbers) -> None:
        """`add` without its nouns, for the many."""
        good, bad, undecided = numbers
        if good + bad + undecided <= 0:
            return
        if self.began_at_seconds is None or from_seconds < self.began_at_seconds:
            self.began_at_seconds = from_seconds
        if self.last_event_at_seconds is None or to_seconds > self.last_event_at_seconds:
            self.last_event_at_seconds = to_seconds
        totals = self._totals
        for tier in self._tiers:
            if to_seconds >= tier.head_end_seconds or from_seconds < tier.head_start_seconds:
                tier.add(from_seconds, to_seconds, numbers, totals)
        self._totals = (totals[0] + good, totals[1] + bad, totals[2] + undecided)

    def since(self, start_seconds: float) -> Counts:
        """Everything after `start_seconds`; beyond the longest tier, everything that is kept."""
        for tier in self._tiers:
            if start_seconds >= tier.reach_seconds:
                break
        return tier.since(start_seconds, self._totals)

    def total(self) -> Counts:
        """Everything ever counted."""
        return Counts(*self._totals)

    def coverage_ratio(self, window_seconds: float, now_seconds: float) -> float:
        """The part of the last `window_seconds` in which events were being counted."""
        if self.began_at_seconds is None:
            return 0.0
        counted_seconds = now_seconds - self.began_at_seconds
        return 1.0 if counted_seconds >= window_seconds else max(0.0, counted_seconds) / window_seconds

    def outline(self) -> dict[str, object]:
        """All but the buckets, as plain values."""
        return {
            "began_at_seconds": self.began_at_seconds,
            "last_event_at_seconds": self.last_event_at_seconds,
            "totals": list(self._totals),
            "heads": [tier.head for tier in self._tiers],
        }

    def changed_chunks(self, *, everything: bool = False) -> Iterator[tuple[int, int, bytes]]:
        """(tier, chunk, its bytes) of all buckets that changed since the last call."""
        for number, tier in enumerate(self._tiers):
            for chunk in tier.changed_chunks(everything=everything):
                yield number, chunk, tier.chunk(chunk)

    @classmethod
    def restored(
        cls,
        began_at_seconds: float | None,
        last_event_at_seconds: float | None,
        totals: Sequence[float],
        heads: Sequence[int | None],
        chunks: Mapping[tuple[int, int], bytes],
    ) -> "TimeBuckets":
        """What `outline` and `changed_chunks` told. Raises ValueError where the two cannot belong together."""
        buckets = cls()
        buckets.began_at_seconds, buckets.last_event_at_seconds = began_at_seconds, last_event_at_seconds
        good, bad, undecided = totals
        buckets._totals = (good, bad, undecided)
        for number, (tier, head) in enumerate(zip(buckets._tiers, heads, strict=True)):
            tier.restore(head, {chunk: body for (of, chunk), body in chunks.items() if of == number})
        return buckets


@lru_cache(maxsize=64)
def _shares(
    from_seconds: float, to_seconds: float, head: int, width: float, size: int
) -> tuple[int, tuple[tuple[int, float], ...]]:
    """The first bucket that an event of (from, to] is in, and (place, part of the events that came up to its end) of
    those from there to the head; many SLOs ask.
    """
    first, last = max(floor(from_seconds / width), head - size), floor(to_seconds / width)
    span = to_seconds - from_seconds
    return first, tuple(
        (bucket % size, 1.0 if bucket >= last else ((bucket + 1) * width - from_seconds) / span)
        for bucket in range(first, head)
    )


def _spread(ends: "array[float]", events: float, shares: tuple[tuple[int, float], ...]) -> None:
    for place, share in shares:
        ends[place] += events * share


class _Tier:
    """A ring of running totals at the end of each bucket before the head, the newest bucket that has events.

    At the end of the head itself the running total is the total of all: most events touch nothing here.
    """

    __slots__ = (
        "_bad", "_changed_from", "_good", "_undecided", "head", "head_end_seconds", "head_start_seconds",
        "reach_seconds", "size", "width",
    )  # fmt: skip

    def __init__(self, width_seconds: float, size: int) -> None:
        self.width = width_seconds
        self.size = size
        self.head: int | None = None
        self.head_start_seconds = self.head_end_seconds = self.reach_seconds = -inf
        self._good, self._bad, self._undecided = array("d"), array("d"), array("d")
        self._changed_from: int | None = None  # every bucket from here to the head may have changed

    def add(self, from_seconds: float, to_seconds: float, numbers: Numbers, totals: Numbers) -> None:
        """Count events; `totals` are those before them."""
        if to_seconds >= self.head_end_seconds or self.head is None:
            self._advance(floor(to_seconds / self.width), totals)
        if self.head is None or from_seconds >= self.head_start_seconds:
            return
        first, shares = _shares(from_seconds, to_seconds, self.head, self.width, self.size)
        if self._changed_from is None or first < self._changed_from:
            self._changed_from = first
        good, bad, undecided = numbers
        if good:
            _spread(self._good, good, shares)
        if bad:
            _spread(self._bad, bad, shares)
        if undecided:
            _spread(self._undecided, undecided, shares)

    def _advance(self, bucket: int, totals: Numbers) -> None:
        if self.head is None:
            self._allocate()
            before = bucket
        else:
            before = max(self.head, bucket - self.size)
            self._note_change(before)
        good, bad, undecided = totals
        size = self.size
        for index in range(before, bucket):
            place = index % size
            self._good[place], self._bad[place], self._undecided[place] = good, bad, undecided
        self._set_head(bucket)

    def _allocate(self) -> None:
        self._good, self._bad, self._undecided = (array("d", bytes(8 * self.size)) for _ in range(3))

    def _set_head(self, head: int) -> None:
        """`reach_seconds`: everything from there on is still told apart from what came before."""
        self.head = head
        self.head_start_seconds, self.head_end_seconds = head * self.width, (head + 1) * self.width
        self.reach_seconds = (head - self.size + 2) * self.width

    def _note_change(self, bucket: int) -> None:
        if self._changed_from is None or bucket < self._changed_from:
            self._changed_from = bucket

    def since(self, start_seconds: float, totals: Numbers) -> Counts:
        head = self.head
        if head is None:
            return Counts()
        bucket = floor(start_seconds / self.width)
        passed = (start_seconds - bucket * self.width) / self.width  # unix times have no digits to spare
        rest, (good, bad, undecided) = 1.0 - passed, totals
        if head - self.size < bucket < head:  # the usual case: both ends of the bucket are in the ring
            place = bucket % self.size
            if good:
                good = good - rest * self._good[place - 1] - passed * self._good[place]
            if bad:
                bad = bad - rest * self._bad[place - 1] - passed * self._bad[place]
            if undecided:
                undecided = undecided - rest * self._undecided[place - 1] - passed * self._undecided[place]
        elif bucket > head:
            return Counts()
        else:
            before, after = self._end(bucket - 1, totals), self._end(bucket, totals)
            good = good - rest * before[0] - passed * after[0]
            bad = bad - rest * before[1] - passed * after[1]
            undecided = undecided - rest * before[2] - passed * after[2]
        return Counts(good if good > 0 else 0.0, bad if bad > 0 else 0.0, undecided if undecided > 0 else 0.0)

    def _end(self, bucket: int, totals: Numbers) -> Numbers:
        """The running totals at the end of a bucket."""
        if self.head is None or bucket >= self.head:
            return totals
        if bucket < self.head - self.size:
            return NOTHING
        place = bucket % self.size
        return self._good[place], self._bad[place], self._undecided[place]

    def changed_chunks(self, *, everything: bool) -> list[int]:
        if self.head is None:
            return []
        changed = self.head - self.size if everything else self._changed_from
        self._changed_from = None
        if changed is None:
            return []
        buckets = range(max(changed, self.head - self.size), self.head)
        return sorted({bucket % self.size // CHUNK for bucket in buckets})

    def chunk(self, number: int) -> bytes:
        """The chunk's good counts, then the bad ones, then the undecided ones: 8 bytes each, in machine order."""
        part = slice(number * CHUNK, (number + 1) * CHUNK)
        return b"".join(numbers[part].tobytes() for numbers in (self._good, self._bad, self._undecided))

    def restore(self, head: int | None, chunks: Mapping[int, bytes]) -> None:
        if head is None:
            return
        self._allocate()
        for number, body in chunks.items():
            numbers = array("d", body)
            start, stop = number * CHUNK, min((number + 1) * CHUNK, self.size)
            length = stop - start
            if len(numbers) != 3 * length:
                raise ValueError(f"chunk {number} has {len(numbers)} numbers instead of {3 * length}")
            for place, of in enumerate((self._good, self._bad, self._undecided)):
                of[start:stop] = numbers[place * length : (place + 1) * length]
        self._set_head(head)
