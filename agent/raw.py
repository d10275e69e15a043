"""Counters and histograms as served, and how much they rose between two readings. What cannot be told is left out."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from operator import sub

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

    def update(self, newer: "Raw", observed: Collection[str]) -> None:
        """Take over newer numbers, but not a histogram that was not read at one instant: the next one counts.

        Of the `observed` ones it is known what is new in them, so they are whole.
        """
        self.counters.update(newer.counters)
        for signal, histogram in newer.histograms.items():
            if signal in observed or not _is_torn(self.histograms.get(signal), histogram):
                self.histograms[signal] = histogram
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
    total = None if before.total is None or now.total is None else now.total - before.total
    if before.counts == now.counts:
        return Buckets(now.edges, (ZERO,) * len(now.counts), total)
    risen = _per_bucket_risen(before, now)
    return None if min(risen) < 0 else Buckets(now.edges, tuple([rise or ZERO for rise in risen]), total)


def all_observations(histogram: HistogramSample) -> Buckets:
    """Everything a histogram holds."""
    return Buckets(histogram.edges, _per_bucket(histogram.counts), histogram.total)


def _per_bucket(cumulative: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(b - a for a, b in zip((0.0, *cumulative), cumulative, strict=False))


def _is_torn(before: HistogramSample | None, now: HistogramSample) -> bool:
    """Some bucket shrank though the whole grew: the page was not read at one instant."""
    if before is None or before.edges != now.edges or before.counts[-1] > now.counts[-1]:
        return False
    return min(_per_bucket_risen(before, now)) < 0


def _per_bucket_risen(before: HistogramSample, now: HistogramSample) -> tuple[float, ...]:
    """How much each bucket rose, of two histograms with the same edges; below 0 where it shrank."""
    risen = tuple(map(sub, now.counts, before.counts))
    return risen[0], *map(sub, risen[1:], risen)
