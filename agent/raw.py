"""Counters and histograms as served, and how much they rose between two readings. What cannot be told is left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import lt, sub

from agent.stats.buckets import Buckets
from probes.sample import HistogramSample

SignalKey = tuple[str, str]  # (signal, label)
ZERO = 0.0  # one object for most of the numbers that are kept for an hour


@dataclass(slots=True)
class Raw:
    """The last known numbers of one engine. What a page leaves out for once keeps its last value here."""

    counters: dict[SignalKey, float] = field(default_factory=dict)
    histograms: dict[str, HistogramSample] = field(default_factory=dict)
    gauges: dict[SignalKey, float] = field(default_factory=dict)

    def update(self, newer: "Raw") -> None:
        """Take over newer numbers, but not a histogram that was not read at one instant: the next one counts."""
        self.counters.update(newer.counters)
        whole = {s: h for s, h in newer.histograms.items() if not _is_torn(self.histograms.get(s), h)}
        self.histograms.update(whole)
        self.gauges = newer.gauges


def rises(
    before: Mapping[SignalKey, float], now: Mapping[SignalKey, float], *, was_whole: bool
) -> dict[SignalKey, float]:
    """How much each counter rose; one that fell has started anew, and all it shows is new.

    A first sight counts only where a labelled counter got a new label on a page that was read whole before: servers
    write such a series when it first happens. Anything else seen for the first time may be old, so its rise is unknown.
    """
    found = {}
    for place, value in now.items():
        last = before.get(place)
        if last is not None:
            found[place] = (value - last if value >= last else value) or ZERO
        elif was_whole and place[1]:
            found[place] = value
    return found


def new_observations(before: HistogramSample | None, now: HistogramSample) -> Buckets | None:
    """Observations since `before`; None for a first sight, and where the edges changed: nothing can be subtracted."""
    if before is None:
        return None
    if before.counts[-1] > now.counts[-1]:
        return all_observations(now)
    if before.edges != now.edges:
        return None
    risen = tuple(map(sub, now.counts, before.counts))
    if _shrank(risen):
        return None
    total = None if before.total is None or now.total is None else now.total - before.total
    return Buckets(now.edges, tuple([rise or ZERO for rise in (risen[0], *map(sub, risen[1:], risen))]), total)


def all_observations(histogram: HistogramSample) -> Buckets:
    """Everything a histogram holds."""
    return Buckets(histogram.edges, _per_bucket(histogram.counts), histogram.total)


def _per_bucket(cumulative: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(b - a for a, b in zip((0.0, *cumulative), cumulative, strict=False))


def _is_torn(before: HistogramSample | None, now: HistogramSample) -> bool:
    """Some bucket shrank though the whole grew: the page was not read at one instant."""
    if before is None or before.edges != now.edges or before.counts[-1] > now.counts[-1]:
        return False
    return _shrank(tuple(map(sub, now.counts, before.counts)))


def _shrank(risen: tuple[float, ...]) -> bool:
    """Whether some bucket did, by how much each cumulative count rose."""
    return risen[0] < 0 or any(map(lt, risen[1:], risen))
