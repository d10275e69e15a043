"""Time that counts for nothing: announced maintenance and incidents that were agreed not to count, good and bad alike.

An exclusion is a fact about the past as much as about the future: everything is computed anew from the counts that are
kept, so one that is added later changes the budget as if it had always been there, and one taken out brings all back.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import inf
from zoneinfo import ZoneInfo

from agent.model import Counts, Excluded
from agent.stats.time_buckets import TimeBuckets

HOUR_SECONDS = 3_600.0
Span = tuple[float, float]  # (from, to) in unix seconds


@dataclass(frozen=True, slots=True)
class Weekly:
    """On these weekdays (0 is Monday) from a minute of the day on, by the clocks of a time zone, for so long."""

    weekdays: tuple[int, ...]
    start_minute: int
    length_seconds: float
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """What is excluded, of which SLOs ("*": all), why, and by whom. With `weekly` the two stamps bound the series."""

    slos: tuple[str, ...]
    reason: str
    by: str = ""
    from_seconds: float = -inf
    to_seconds: float = inf
    weekly: Weekly | None = None


def excluded_spans(exclusions: tuple[Exclusion, ...], slo: str, start_seconds: float, end_seconds: float) -> list[Span]:
    """The excluded parts of (start, end] for one SLO, merged: what two exclusions name is excluded once."""
    if not exclusions:
        return []
    merged: list[Span] = []
    spans = [span for one in exclusions if _is_for(one, slo) for span in _spans(one, start_seconds, end_seconds)]
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


def seconds_within(spans: Sequence[Span], start_seconds: float, end_seconds: float) -> float:
    """How much of (start, end] these merged spans take."""
    parts = (min(end, end_seconds) - max(begin, start_seconds) for begin, end in spans)
    return sum(part for part in parts if part > 0)


def counted(events: TimeBuckets, start_seconds: float, now_seconds: float, spans: Sequence[Span]) -> Counts:
    """Events after `start_seconds` up to now, without those of the spans."""
    counts = events.since(start_seconds)
    for begin, end in spans:
        if end > start_seconds and begin < now_seconds:
            out = _between(events, max(begin, start_seconds), end)
            counts = _without(counts, out)
    return counts


def told(
    exclusions: tuple[Exclusion, ...], slo: str, events: TimeBuckets, start_seconds: float, now_seconds: float
) -> Iterator[Excluded]:
    """For the audit: each excluded stretch of the period, why, by whom, and the events that do not count for it."""
    for one in exclusions:
        if _is_for(one, slo):
            for begin, end in _spans(one, start_seconds, now_seconds):
                yield Excluded(begin, end, one.reason, one.by, _between(events, begin, min(end, now_seconds)))


def _between(events: TimeBuckets, begin: float, end: float) -> Counts:
    return _without(events.since(begin), events.since(end))


def _without(counts: Counts, part: Counts) -> Counts:
    return Counts(*(max(0.0, whole - less) for whole, less in zip(counts, part, strict=True)))


def _is_for(exclusion: Exclusion, slo: str) -> bool:
    return "*" in exclusion.slos or slo in exclusion.slos


def _spans(exclusion: Exclusion, start: float, end: float) -> Iterable[Span]:
    """Its stretches that have a part in (start, end); a weekly one that runs over `end` is given whole."""
    if exclusion.weekly is None:
        every: Iterable[Span] = [(exclusion.from_seconds, exclusion.to_seconds)]
    else:
        hours = start // HOUR_SECONDS, end // HOUR_SECONDS
        first, last = exclusion.from_seconds, exclusion.to_seconds
        bounds = [(max(begin, first), min(until, last)) for begin, until in _weeks(exclusion.weekly, *hours)]
        every = [(begin, until) for begin, until in bounds if begin < until]
    return [(max(begin, start), until) for begin, until in every if until > start and begin < end]


@lru_cache(maxsize=64)
def _weeks(weekly: Weekly, start_hour: float, end_hour: float) -> tuple[Span, ...]:
    """Every occurrence from a day before to the end. At a change of clocks the wall clock is what counts."""
    zone = ZoneInfo(weekly.time_zone)
    start, end = (datetime.fromtimestamp(hour * HOUR_SECONDS, UTC).astimezone(zone) for hour in (start_hour, end_hour))
    day, spans = (start - timedelta(days=1 + weekly.length_seconds // 86_400)).date(), []
    while day <= end.date():
        if day.weekday() in weekly.weekdays:
            at = datetime(day.year, day.month, day.day, *divmod(weekly.start_minute, 60), tzinfo=zone).timestamp()
            spans.append((at, at + weekly.length_seconds))
        day += timedelta(days=1)
    return tuple(spans)
