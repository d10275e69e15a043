"""What one engine did between two readings, and several of that made into one.

An hour of a page that is read every second has to fit into memory, so older increments are joined. Nothing that is
added up changes by it: counters, observations, time. A gauge keeps its mean, its largest reading and how many there
were.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import mul
from typing import Final, NamedTuple

from agent.own import Own, own_together
from agent.raw import ZERO, SignalKey
from agent.stats.buckets import Buckets, merged

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

    def all_readings(self) -> Mapping[SignalKey, Spread]:
        """Every gauge without a label, over all readings that this one is of."""
        return self.spreads or {place: Spread(value, value, 1) for place, value in self.gauges.items() if not place[1]}


def first_stretch(increments: Iterable[Increment]) -> list[Increment]:
    """As many of the first of these as can be one: not longer than COARSE_SECONDS together, and without losing a
    restart, a gap, a layout or the time of an event.
    """
    stretch: list[Increment] = []
    edges: dict[str, tuple[float, ...]] = {}
    for increment in increments:
        has_event = _has_event(increment)
        if stretch and (has_event or not _fits(stretch, increment, edges)):
            break
        stretch.append(increment)
        if has_event:
            break
        for signal, buckets in increment.histograms.items():
            edges[signal] = buckets.edges
    return stretch


def joined(stretch: Sequence[Increment]) -> Increment:
    """Increments of which `first_stretch` says that they can be one, as one."""
    counters: dict[SignalKey, float] = {}
    histograms: dict[str, list[Buckets]] = defaultdict(list)
    spreads: dict[SignalKey, list[Spread]] = defaultdict(list)
    for increment in stretch:
        for place, rise in increment.counters.items():
            counters[place] = (counters.get(place, ZERO) + rise) or ZERO
        for signal, buckets in increment.histograms.items():
            histograms[signal].append(buckets)
        for place, spread in increment.all_readings().items():
            spreads[place].append(spread)
    first, last = stretch[0], stretch[-1]
    return Increment(
        last.key,
        first.from_seconds,
        last.to_seconds,
        counters,
        {signal: whole for signal, parts in histograms.items() if (whole := merged(parts)) is not None},
        last.gauges,
        first.restarted,
        reduce(own_together, (increment.own for increment in stretch)),
        {place: _together(parts) for place, parts in spreads.items()},
    )


def _fits(stretch: Sequence[Increment], later: Increment, edges: Mapping[str, tuple[float, ...]]) -> bool:
    """Whether it can be one with those before; `edges` are theirs."""
    first, last = stretch[0], stretch[-1]
    if later.restarted or last.to_seconds != later.from_seconds or first.from_seconds == first.to_seconds:
        return False
    if later.to_seconds - first.from_seconds > COARSE_SECONDS:
        return False
    return all(edges.get(signal, buckets.edges) == buckets.edges for signal, buckets in later.histograms.items())


def _has_event(increment: Increment) -> bool:
    return any(signal in EVENTS and rise > 0 for (signal, _), rise in increment.counters.items())


def _together(spreads: Sequence[Spread]) -> Spread:
    means, largest, readings = zip(*spreads, strict=True)
    return Spread(sum(map(mul, means, readings)) / sum(readings), max(largest), sum(readings))
