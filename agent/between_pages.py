"""What engines did between two pages of one target: rises, new observations, and whether it is still one process."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from agent.increment import EngineKey, Increment
from agent.raw import Raw, SignalKey, all_observations, new_observations, rises
from agent.stats.buckets import Buckets
from probes.sample import HistogramSample, Reading

FROM_FIRST_EVENT = "router_"  # signals whose series stand on no page before something happened
INCOMPLETE = (
    "malformed",
    "not_finite",
    "dropped_series",
    "page_cut",
    "odd_histograms",
    "too_many_engines",
)  # a page warned about so may lack a series
START_TOLERANCE_SECONDS = 1.0  # process start times of one process differ by rounding
OTHER_PROCESS_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Pages:
    """Two looks at one target, and since when somebody looked.

    `before` is the last page that was read, None at first. `engine_until_seconds` is when the engine in question was
    last on a page, None where it never was.
    """

    before: Reading | None
    now: Reading
    first_attempt_at_seconds: float
    engine_until_seconds: float | None = None

    @property
    def watched_since_seconds(self) -> float:
        """From when on what happened is new to us."""
        return self.before.at_seconds if self.before is not None else self.first_attempt_at_seconds


def by_engine(reading: Reading) -> dict[EngineKey, Raw]:
    """The numbers of each engine on a page."""
    engines: dict[tuple[str, str], Raw] = defaultdict(Raw)
    for sample in reading.samples:
        raw = engines[sample.engine, sample.model]
        numbers = raw.counters if sample.kind == "counter" else raw.gauges
        numbers[_place(sample.signal, sample.label)] = sample.value
    for histogram in reading.histograms:
        engines[histogram.engine, histogram.model].histograms[histogram.signal] = histogram
    return {EngineKey(reading.target, reading.source, *place): raw for place, raw in engines.items()}


def increment_between(last: Raw | None, raw: Raw, pages: Pages, key: EngineKey, *, restarted: bool) -> Increment:
    """What one engine did since `last`, its numbers of the last page that it was on; `raw` are those of now."""
    before, now, known_since = pages.before, pages.now, pages.watched_since_seconds
    is_new_process = restarted or (
        now.process_start_seconds is not None and known_since < now.process_start_seconds <= now.at_seconds
    )
    if last is None and not is_new_process:
        if before is None or not _was_whole(before):
            return Increment(key, now.at_seconds, now.at_seconds, {}, {}, raw.gauges, restarted=False)
        last = Raw()  # an engine or a model that came up on a page that was read whole before
    start = known_since
    if last is not None and pages.engine_until_seconds is not None:
        start = pages.engine_until_seconds  # the engine itself may have been missing from some pages
    if now.process_start_seconds is not None:
        start = min(max(start, now.process_start_seconds), now.at_seconds)
    if last is None:
        counters = raw.counters  # everything on the page happened since we last looked
        histograms = {signal: all_observations(histogram) for signal, histogram in raw.histograms.items()}
    else:
        counters = rises(last.counters, raw.counters, was_whole=before is not None and _was_whole(before))
        histograms = {
            signal: buckets
            for signal, histogram in raw.histograms.items()
            if (buckets := _observed(last.histograms.get(signal), histogram, before)) is not None
        }
    return Increment(key, start, now.at_seconds, counters, histograms, raw.gauges, restarted)


def restarted_engines(
    known: Mapping[EngineKey, Raw], engines: Mapping[EngineKey, Raw], before: Reading | None, now: Reading
) -> frozenset[EngineKey]:
    """Engines in another process than before: all of the target by its start time; where no start time is told,
    those whose own counters fell. The others on the page keep their baseline.
    """
    if before is None:
        return frozenset()
    if before.process_start_seconds is not None and now.process_start_seconds is not None:
        if abs(before.process_start_seconds - now.process_start_seconds) <= START_TOLERANCE_SECONDS:
            return frozenset()
        return frozenset({key for key in known if key.target == now.target} | set(engines))
    return frozenset(
        key
        for key, raw in engines.items()
        if (last := known.get(key)) is not None
        and any(value < last.counters.get(place, 0.0) for place, value in raw.counters.items())
    )


def is_of_an_earlier_process(before: Reading | None, now: Reading) -> bool:
    """A page by a process that began before the one last read: several answer at this address, one at a time.

    Their counters cannot be told apart, so only the latest one's pages are used. When it has been silent for a while,
    it is gone, and the earlier one is taken.
    """
    if before is None or before.process_start_seconds is None or now.process_start_seconds is None:
        return False
    is_earlier = now.process_start_seconds < before.process_start_seconds - START_TOLERANCE_SECONDS
    return is_earlier and now.at_seconds - before.at_seconds < OTHER_PROCESS_SECONDS


def _observed(last: HistogramSample | None, histogram: HistogramSample, before: Reading | None) -> Buckets | None:
    """What was observed since the last look. Routers write a histogram when they first observe something."""
    if last is None and histogram.signal.startswith(FROM_FIRST_EVENT) and before is not None:
        return all_observations(histogram) if _was_whole(before) else None
    return new_observations(last, histogram)


@lru_cache(maxsize=4096)
def _place(signal: str, label: str) -> SignalKey:
    """One and the same tuple for one signal: thousands of increments hold it."""
    return signal, label


def _was_whole(reading: Reading) -> bool:
    """Whether every series of the page was read, so that one which is not there was not on it."""
    return not any(warning.code in INCOMPLETE for warning in reading.warnings)
