"""Slices of time: an SLO may promise that so many of them are good, instead of so many events.

A slice is good where at least `slice_good_ratio` of its events are, bad where they cannot be, and undecided where the
undecided events decide. One without events is none of these: it does not count, and is told as empty.
"""

from dataclasses import dataclass, field
from math import ceil, floor
from typing import NamedTuple

from agent.model import Slo
from agent.stats.time_buckets import Numbers, TimeBuckets

SETTLE_SECONDS = 30.0  # readings that wait for a canary's result come up to 15 s later, and spans in batches
ROUNDING_RATIO = 1e-9  # floats: 0.95 of 20 events is more than 19
GOOD, BAD, UNDECIDED = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


class Verdict(NamedTuple):
    """What one slice was, as one event: (from, to] and its place among slices of that length."""

    place: int
    from_seconds: float
    to_seconds: float
    numbers: Numbers


@dataclass(slots=True)
class Slices:
    """What came in of the slices that have no verdict yet, by place: place n is (n, n + 1] times the slice's length.

    Slices before `judged_until` are closed: a verdict is never taken back. What comes later for one counts in the
    oldest slice that is open, so that no event is lost.
    """

    open: dict[int, Numbers] = field(default_factory=dict)
    judged_until: int | None = None

    def count(self, length_seconds: float, from_seconds: float, to_seconds: float, numbers: Numbers) -> None:
        """Events that arose somewhere in (from, to]. Those of one reading belong to the slice in which it was taken.

        Where that is longer than a slice (nobody could read), nothing tells in which slice they fell: they are spread
        over at most as many of the newest slices as there are events, and are undecided there unless all of them are
        good or all bad.
        """
        total = sum(numbers)
        if total <= 0:
            return
        last = ceil(to_seconds / length_seconds) - 1
        first = last
        if to_seconds - from_seconds > length_seconds:
            first = max(floor(from_seconds / length_seconds), last + 1 - max(1, floor(total)))
            numbers = numbers if max(numbers) == total else (0.0, 0.0, total)
        if self.judged_until is not None:
            first, last = max(first, self.judged_until), max(last, self.judged_until)
        places = range(first, last + 1)
        for place in places:
            before = self.open.get(place, (0.0, 0.0, 0.0))
            good, bad, undecided = (of + more / len(places) for of, more in zip(before, numbers, strict=True))
            self.open[place] = good, bad, undecided

    def judge(self, slo: Slo, events: TimeBuckets, now_seconds: float) -> list[Verdict]:
        """Every slice that is over becomes one event of the SLO, spread over the slice's own time. Returns them."""
        length = slo.slice_seconds or 0.0
        due = judged_until_seconds(slo, now_seconds) / length
        verdicts = [
            Verdict(place, place * length, (place + 1) * length, _verdict(slo, self.open.pop(place)))
            for place in sorted(place for place in self.open if place < round(due))
        ]
        for verdict in verdicts:
            events.count(verdict.from_seconds, verdict.to_seconds, verdict.numbers)
            self.judged_until = verdict.place + 1
        return verdicts


def judged_until_seconds(slo: Slo, now_seconds: float) -> float:
    """Up to when an SLO's events are all judged: the end of the last slice that has settled; without slices, now."""
    if slo.slice_seconds is None:
        return now_seconds
    return floor((now_seconds - SETTLE_SECONDS) / slo.slice_seconds) * slo.slice_seconds


def _verdict(slo: Slo, numbers: Numbers) -> Numbers:
    good, _, undecided = numbers
    needed = (slo.slice_good_ratio or 0.0) * sum(numbers) * (1 - ROUNDING_RATIO)
    if good >= needed:
        return GOOD
    return BAD if good + undecided < needed else UNDECIDED
