"""What a window's increments add up to: counters and histograms summed, gauges followed through time."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property

from agent.own import Own
from agent.raw import SignalKey
from agent.signals.levels import GaugeReading, level_of
from agent.signals.model import Level
from agent.stats.between import Between
from agent.stats.buckets import Buckets, merged
from agent.windows import Increment
from probes.systems import ENGINES

RUNNING, WAITING = ("requests_running", ""), ("requests_waiting", "")


class Sums:
    """What some engines did over one window, or several such together; each figure is added up when first asked for."""

    def __init__(self, increments: Iterable[Increment] = (), parts: Iterable["Sums"] = ()) -> None:
        self._parts, self.increments = list(parts), list(increments)
        for part in self._parts:
            self.increments += part.increments
        self._histograms: dict[str, Buckets | None] = {}
        self._readings: dict[str, list[GaugeReading]] = {}

    @cached_property
    def counters(self) -> dict[tuple[str, str], float]:
        """The rise of each counter that a page had, by signal and label."""
        return _added(part.counters for part in self._parts or self.increments)

    @cached_property
    def own(self) -> dict[tuple[str, str], float]:
        """What our canaries have in the counters."""
        return _added(own.counters for own in self._owns)

    @cached_property
    def spans(self) -> dict[str, list[tuple[float, float]]]:
        """From when to when there are readings, by source."""
        found: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for increment in self.increments:
            found[increment.key.source].append((increment.from_seconds, increment.to_seconds))
        return found

    @cached_property
    def _owns(self) -> list[Own]:
        return [increment.own for increment in self.increments if increment.own is not None]

    def counter(self, signal: str, label: str = "") -> float | None:
        """The rise of a counter; None when no page had it."""
        return self.counters.get((signal, label))

    def by_label(self, signal: str) -> dict[str, float]:
        """The rises of a labelled counter; empty when no page had it."""
        return {label: value for (name, label), value in self.counters.items() if name == signal}

    def histogram(self, signal: str) -> Buckets | None:
        """All observations; None when no page had the histogram."""
        if signal not in self._histograms:
            found = [part.histogram(signal) for part in self._parts]
            found += [] if self._parts else [increment.histograms.get(signal) for increment in self.increments]
            self._histograms[signal] = merged(buckets for buckets in found if buckets is not None)
        return self._histograms[signal]

    def users_counter(self, signal: str, label: str = "") -> float | None:
        """The rise of a counter without our own part; None when no page had it."""
        rise = self.counter(signal, label)
        return None if rise is None else max(0.0, rise - self.own.get((signal, label), 0.0))

    def users_by_label(self, signal: str) -> dict[str, float]:
        """The rises of a labelled counter without our own part; empty when no page had it."""
        return {label: max(0.0, n - self.own.get((signal, label), 0.0)) for label, n in self.by_label(signal).items()}

    def users_histogram(self, signal: str) -> Between | None:
        """All observations without our own; None when no page had the histogram."""
        every, ours = self.histogram(signal), [own.histograms[signal] for own in self._owns if signal in own.histograms]
        ours_low, ours_high = merged(one.low for one in ours), merged(one.high for one in ours)
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
        return level_of(self.readings(signal), as_mean=as_mean)

    def readings(self, signal: str) -> list[GaugeReading]:
        """A gauge without a label, wherever a page had it."""
        if signal not in self._readings:
            place = (signal, "")
            found = [reading for part in self._parts for reading in part.readings(signal)]
            having = [] if self._parts else [one for one in self.increments if place in one.gauges]
            self._readings[signal] = found + [_reading(increment, place) for increment in having]
        return self._readings[signal]

    @cached_property
    def inside(self) -> list[GaugeReading]:
        """Requests inside each engine, running and waiting together, over every stretch whose page tells of both."""
        if self._parts:
            return [reading for part in self._parts for reading in part.inside]
        return [reading for reading in map(_inside, self.increments) if reading is not None]


def add_up(increments: Iterable[Increment]) -> Sums:
    """Sums over the increments, in whatever order they come."""
    return Sums(increments)


def together(parts: Iterable[Sums]) -> Sums:
    """The sums of several targets as one."""
    return Sums(parts=parts)


def _reading(increment: Increment, place: SignalKey) -> GaugeReading:
    value = increment.gauges[place]
    spread = increment.spreads.get(place) or (value, value, 1)
    return GaugeReading(increment.to_seconds, increment.key, value, *spread)


def _inside(increment: Increment) -> GaugeReading | None:
    """None where it is no stretch, or its page does not tell of both. Of readings that were joined, the largest is at
    most so much.
    """
    if increment.key.source not in ENGINES or increment.to_seconds <= increment.from_seconds:
        return None
    gauges, spreads = increment.gauges, increment.spreads
    running, waiting = gauges.get(RUNNING), gauges.get(WAITING)
    if running is None or waiting is None:
        return None
    last = running + waiting
    if RUNNING not in spreads or WAITING not in spreads:
        return GaugeReading(increment.to_seconds, increment.key, last, last, last, 1)
    one, other = spreads[RUNNING], spreads[WAITING]
    readings = min(one.readings, other.readings)
    mean, largest = one.mean + other.mean, one.largest + other.largest
    return GaugeReading(increment.to_seconds, increment.key, last, mean, largest, readings)


def _added(parts: Iterable[Mapping[SignalKey, float]]) -> dict[SignalKey, float]:
    found: dict[SignalKey, float] = defaultdict(float)
    for part in parts:
        for place, rise in part.items():
            found[place] += rise
    return found
