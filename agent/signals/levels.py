"""A gauge of several engines through time: added up, or averaged, where all of them are known."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from statistics import median
from typing import NamedTuple

from agent.increment import COARSE_SECONDS, EngineKey
from agent.signals.model import Level

PATIENCE = 2.5  # usual gaps between readings without one, and a gauge is no longer known (as a target's page, then)


class GaugeReading(NamedTuple):
    """A gauge of one engine, as read at `at_seconds`; its mean, and the largest, of the `readings` it stands for."""

    at_seconds: float
    key: EngineKey
    last: float
    mean: float
    largest: float
    readings: int


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
