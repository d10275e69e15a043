"""What a window's increments add up to: counters and histograms summed, gauges followed through time."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from statistics import median
from typing import NamedTuple

from agent.increment import COARSE_SECONDS
from agent.signals.model import Level
from agent.stats.between import Between
from agent.stats.buckets import Buckets, merged
from agent.windows import EngineKey, Increment
from probes.systems import ENGINES

PATIENCE = 2.5  # usual gaps between readings without one, and a gauge is no longer known (as a target's page, then)


class GaugeReading(NamedTuple):
    """A gauge of one engine, as read at `at_seconds`; its mean, and the largest, of the `readings` it stands for."""

    at_seconds: float
    key: EngineKey
    last: float
    mean: float
    largest: float
    readings: int


@dataclass(slots=True)
class Sums:
    """The increments of some engines over one window, added up. `own` is what our canaries have in them."""

    counters: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    histograms: dict[str, list[Buckets]] = field(default_factory=lambda: defaultdict(list))
    own: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    own_low: dict[str, list[Buckets]] = field(default_factory=lambda: defaultdict(list))
    own_high: dict[str, list[Buckets]] = field(default_factory=lambda: defaultdict(list))
    spans: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    gauges: dict[str, list[GaugeReading]] = field(default_factory=lambda: defaultdict(list))
    inside: list[GaugeReading] = field(default_factory=list)  # requests in an engine: running and waiting, together

    def counter(self, signal: str, label: str = "") -> float | None:
        """The rise of a counter; None when no page had it."""
        return self.counters.get((signal, label))

    def by_label(self, signal: str) -> dict[str, float]:
        """The rises of a labelled counter; empty when no page had it."""
        return {label: value for (name, label), value in self.counters.items() if name == signal}

    def histogram(self, signal: str) -> Buckets | None:
        """All observations; None when no page had the histogram. They are added up when first asked for."""
        parts = self.histograms.get(signal)
        if parts and len(parts) > 1 and (whole := merged(parts)) is not None:
            parts = self.histograms[signal] = [whole]
        return parts[0] if parts else None

    def users_counter(self, signal: str, label: str = "") -> float | None:
        """The rise of a counter without our own part; None when no page had it."""
        rise = self.counter(signal, label)
        return None if rise is None else max(0.0, rise - self.own.get((signal, label), 0.0))

    def users_by_label(self, signal: str) -> dict[str, float]:
        """The rises of a labelled counter without our own part; empty when no page had it."""
        return {label: max(0.0, n - self.own.get((signal, label), 0.0)) for label, n in self.by_label(signal).items()}

    def users_histogram(self, signal: str) -> Between | None:
        """All observations without our own; None when no page had the histogram."""
        every, low, high = self.histogram(signal), self.own_low.get(signal), self.own_high.get(signal)
        ours_low, ours_high = merged(low or ()), merged(high or ())
        if every is None or ours_low is None or ours_high is None:
            return None if every is None else Between(every, every)
        return Between(every - ours_high, every - ours_low)

    def covered_seconds(self, *sources: str) -> float:
        """How much time readings of these sources cover, moments that several engines cover counted once; 0 if none.

        Engines that follow each other (a roll-out) cover the time of both, engines side by side that of one.
        """
        covered, reached = 0.0, -math.inf
        for start, end in sorted(span for source in sources for span in self.spans.get(source, ())):
            covered += max(0.0, end - max(start, reached))
            reached = max(reached, end)
        return covered

    def level(self, signal: str, *, as_mean: bool = False) -> Level | None:
        """A gauge of all engines together, see `level_of`; None without readings."""
        return level_of(self.gauges.get(signal, ()), as_mean=as_mean)


def level_of(found: Iterable[GaugeReading], *, as_mean: bool = False) -> Level | None:
    """A gauge of all engines together (added up, or averaged), at every instant at which all of them are known.

    Engines are read at different instants: each counts with its latest reading, from about its first one on, until
    it has not been read for a while. None without readings. Of joined readings (see agent/increment.py) the means
    are added up for the mean, and the largest ones for the largest: those of engines that peaked within the same
    ten seconds.
    """
    readings = sorted(found, key=attrgetter("at_seconds"))
    if len({reading.key for reading in readings}) == 1:
        return _level_of_one(readings)
    together = _Together(_stays(readings))
    means, weights, largest, last = 0.0, 0, -math.inf, 0.0
    for reading in readings:
        if together.take(reading):
            share = together.count if as_mean else 1
            means += reading.readings * together.mean / share
            weights += reading.readings
            largest = max(largest, together.largest / share)
            last = together.last / share
    return Level(means / weights, largest, last) if weights else None


def _level_of_one(readings: Sequence[GaugeReading]) -> Level:
    """Of one engine every reading is all that is known."""
    weights = sum(reading.readings for reading in readings)
    mean = sum(reading.readings * reading.mean for reading in readings) / weights
    return Level(mean, max(reading.largest for reading in readings), readings[-1].last)


@dataclass(slots=True)
class _Together:
    """The engines that are there, with their latest readings, added up: anew only when one comes, goes or is late."""

    stays: dict[EngineKey, "_Stay"]
    count: int = 0
    mean: float = 0.0
    largest: float = 0.0
    last: float = 0.0
    _latest: dict[EngineKey, GaugeReading] = field(default_factory=dict)
    _holds_until: float = -math.inf
    _are_known: bool = False

    def take(self, reading: GaugeReading) -> bool:
        """One more reading; whether all that are there at its time are known."""
        before, at = self._latest.get(reading.key), reading.at_seconds
        self._latest[reading.key] = reading
        if before is None or not self._are_known or at > self._holds_until:
            self._look_again(at)
        else:
            self.mean += reading.mean - before.mean
            self.last += reading.last - before.last
            self.largest += reading.largest - before.largest
        return self._are_known

    def _look_again(self, at: float) -> None:
        there = [key for key, stay in self.stays.items() if stay.from_seconds <= at <= stay.to_seconds]
        known = [self._latest[key] for key in there if key in self._latest]
        fresh = [one for one in known if at - one.at_seconds <= self.stays[one.key].patience]
        self._are_known, self.count = len(fresh) == len(there), len(fresh)
        self.mean, self.last = sum(one.mean for one in fresh), sum(one.last for one in fresh)
        self.largest = sum(one.largest for one in fresh)
        changes = [stay.from_seconds for stay in self.stays.values() if stay.from_seconds > at]
        ends = [self.stays[key].to_seconds for key in there]
        late = [one.at_seconds + self.stays[one.key].patience for one in fresh]
        self._holds_until = min([*ends, *late, *(math.nextafter(change, -math.inf) for change in changes)])


@dataclass(frozen=True, slots=True)
class _Stay:
    """From when to when an engine is taken to be there, and how long a reading of it holds."""

    from_seconds: float
    to_seconds: float
    patience: float


def _stays(readings: Sequence[GaugeReading]) -> dict[EngineKey, _Stay]:
    times: dict[EngineKey, list[float]] = defaultdict(list)
    joined: set[EngineKey] = set()
    for reading in readings:
        times[reading.key].append(reading.at_seconds)
        if reading.readings > 1:
            joined.add(reading.key)
    gaps = {key: median(b - a for a, b in pairwise(at)) for key, at in times.items() if len(at) > 1}
    gaps |= {key: max(gaps.get(key, 0.0), COARSE_SECONDS) for key in joined}
    usual = max(gaps.values(), default=0.0)
    return {
        key: _Stay(at[0] - (gap := gaps.get(key, usual)), at[-1] + PATIENCE * gap, PATIENCE * gap)
        for key, at in times.items()
    }


def add_up(increments: Iterable[Increment]) -> Sums:
    """Sums over the increments, in whatever order they come."""
    sums = Sums()
    for increment in increments:
        for place, rise in increment.counters.items():
            sums.counters[place] += rise
        for signal, buckets in increment.histograms.items():
            sums.histograms[signal].append(buckets)
        for (signal, label), value in increment.gauges.items():
            if not label:
                spread = increment.spreads.get((signal, label)) or (value, value, 1)
                sums.gauges[signal].append(GaugeReading(increment.to_seconds, increment.key, value, *spread))
        if (inside := _inside(increment)) is not None:
            sums.inside.append(inside)
        if increment.own is not None:
            for place, part in increment.own.counters.items():
                sums.own[place] += part
            for signal, ours in increment.own.histograms.items():
                sums.own_low[signal].append(ours.low)
                sums.own_high[signal].append(ours.high)
        sums.spans[increment.key.source].append((increment.from_seconds, increment.to_seconds))
    return sums


def _inside(increment: Increment) -> GaugeReading | None:
    """None where a page does not tell of both. Of readings that were joined, the largest is at most so much."""
    if increment.key.source not in ENGINES or increment.to_seconds <= increment.from_seconds:
        return None
    places = ("requests_running", ""), ("requests_waiting", "")
    running, waiting = (increment.gauges.get(place) for place in places)
    if running is None or waiting is None:
        return None
    last = running + waiting
    spreads = [increment.spreads[place] for place in places if place in increment.spreads]
    if len(spreads) < len(places):
        return GaugeReading(increment.to_seconds, increment.key, last, last, last, 1)
    mean, largest = spreads[0].mean + spreads[1].mean, spreads[0].largest + spreads[1].largest
    readings = min(spreads[0].readings, spreads[1].readings)
    return GaugeReading(increment.to_seconds, increment.key, last, mean, largest, readings)


def together(parts: Iterable[Sums]) -> Sums:
    """The sums of several targets as one. Their histograms are added up on the way."""
    whole = Sums()
    for part in parts:
        for place, rise in part.counters.items():
            whole.counters[place] += rise
        for place, ours in part.own.items():
            whole.own[place] += ours
        for signal in part.histograms:
            if (observed := part.histogram(signal)) is not None:
                whole.histograms[signal].append(observed)
        for mine, theirs in ((whole.own_low, part.own_low), (whole.own_high, part.own_high)):
            for signal, buckets in theirs.items():
                mine[signal].extend(buckets)
        whole.inside.extend(part.inside)
        for signal, readings in part.gauges.items():
            whole.gauges[signal].extend(readings)
        for source, spans in part.spans.items():
            whole.spans[source].extend(spans)
    return whole
