"""What one engine did between two readings, and several of that made into one.

An hour of a page that is read every second has to fit into memory, so older increments are joined. Nothing that is
added up changes by it: counters, observations, time. A gauge keeps its mean, its largest reading and how many there
were.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from agent.own import Own, own_together
from agent.raw import SignalKey
from agent.stats.buckets import Buckets

COARSE_SECONDS: Final = 30.0  # so long are joined increments at most
EVENTS: Final = ("gpu_xid_errors_total",)  # rare, and people are told when they happened: they keep their time


class EngineKey(NamedTuple):
    """One engine as seen through one target."""

    target: str
    source: str
    engine: str
    model: str


class Spread(NamedTuple):
    """Several readings of one gauge."""

    mean: float
    largest: float
    readings: int


@dataclass(frozen=True, slots=True)
class Increment:
    """What one engine did in (from_seconds, to_seconds]; the gauges are those of the later reading.

    `restarted` says that its process is another one than before: requests in flight are gone. `spreads` are the gauges
    of all readings, where several increments were joined into this one. `own` is what our canaries have in it; None
    before that is known, and where nothing is ours.
    """

    key: EngineKey
    from_seconds: float
    to_seconds: float
    counters: Mapping[SignalKey, float]
    histograms: Mapping[str, Buckets]
    gauges: Mapping[SignalKey, float]
    restarted: bool
    own: Own | None = None
    spreads: Mapping[SignalKey, Spread] = field(default_factory=dict)

    def users(self, signal: str) -> dict[str, float]:
        """The rise of a counter without our own part, by its label; empty where the page did not have it."""
        ours = self.own.counters if self.own is not None else {}
        return {
            label: rise - ours.get((name, label), 0.0)
            for (name, label), rise in self.counters.items()
            if name == signal
        }

    def readings_of(self, gauge: str) -> Spread | None:
        """One gauge without a label, over all readings that this one is of; None where the last page lacks it."""
        place = (gauge, "")
        value = self.gauges.get(place)
        return None if value is None else self.spreads.get(place) or Spread(value, value, 1)

    def all_readings(self) -> Mapping[SignalKey, Spread]:
        """Every gauge without a label, over all readings that this one is of."""
        return self.spreads or {place: Spread(value, value, 1) for place, value in self.gauges.items() if not place[1]}


def joined(before: Increment, later: Increment) -> Increment | None:
    """Both as one; None where that would be longer than COARSE_SECONDS, or lose a restart, a gap, a layout or the time
    of an event.
    """
    if later.restarted or before.to_seconds != later.from_seconds or before.from_seconds == before.to_seconds:
        return None
    if later.to_seconds - before.from_seconds > COARSE_SECONDS or _edges_differ(before, later):
        return None
    if any(_has_event(increment) for increment in (before, later)):
        return None
    histograms, counters = dict(before.histograms), dict(before.counters)
    for signal, buckets in later.histograms.items():
        histograms[signal] = histograms[signal] + buckets if signal in histograms else buckets
    for place, rise in later.counters.items():
        counters[place] = (counters.get(place, 0.0) + rise) or 0.0
    spreads = dict(before.all_readings())
    for place, spread in later.all_readings().items():
        spreads[place] = _both(spreads[place], spread) if place in spreads else spread
    return replace(
        later,
        from_seconds=before.from_seconds,
        counters=counters,
        histograms=histograms,
        spreads=spreads,
        restarted=before.restarted,
        own=own_together(before.own, later.own),
    )


def _has_event(increment: Increment) -> bool:
    return any(rise > 0 and signal in EVENTS for (signal, _), rise in increment.counters.items())


def _edges_differ(before: Increment, later: Increment) -> bool:
    both = before.histograms.keys() & later.histograms.keys()
    return any(before.histograms[signal].edges != later.histograms[signal].edges for signal in both)


def _both(one: Spread, other: Spread) -> Spread:
    readings = one.readings + other.readings
    mean = (one.mean * one.readings + other.mean * other.readings) / readings
    return Spread(mean, max(one.largest, other.largest), readings)
