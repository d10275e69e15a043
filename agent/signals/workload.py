"""What users ask for: how often, in what bursts, with how long prompts and answers, how many at once, and what repeats.

The first step of every capacity question. All of it comes from vLLM's own counters; arrivals are what ended plus what
is newly inside, since vLLM counts none.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import floor
from operator import attrgetter
from statistics import fmean, median, pvariance

from agent.signals.levels import level_of
from agent.signals.model import Workload
from agent.signals.sums import RUNNING, WAITING, Sums
from agent.stats.between import latency_between
from agent.stats.time_buckets import TimeBuckets
from agent.windows import EngineKey, Increment
from probes.systems import ENGINES

GAPS_A_BIN = 3.0  # readings come with jitter: a bin of three gaps holds about as many of every engine
FEWEST_BINS = 8
FEWEST_ARRIVALS = 20.0
TREND_SECONDS = 1_800.0  # a slope over less is noise
REUSED_RATIO = 0.05  # of the prompt tokens found in the cache; less is no reuse to speak of
CLEARLY = 1.25  # one spread is so many times the other, or the kind of reuse is not told
DAY_SECONDS = 86_400.0


def workload(sums: Sums, increments: Sequence[Increment], events: TimeBuckets | None, end_seconds: float) -> Workload:
    """The load on these engines. `events` are those of an SLO that counts every request; None: no season is known."""
    engines = [i for i in increments if i.key.source in ENGINES and i.to_seconds > i.from_seconds]
    arrivals = list(_arrivals(engines))
    bins = _binned([(at, count) for at, _, count in arrivals], engines)
    seconds = sums.covered_seconds(*ENGINES)
    total = sum(count for _, _, count in arrivals)
    counts = [count for _, count in bins]
    is_enough = len(bins) >= FEWEST_BINS and sum(counts) >= FEWEST_ARRIVALS
    day, week = (_against(events, end_seconds, seconds, days) for days in (1, 7))
    return Workload(
        arrivals_per_second=total / seconds if arrivals and seconds else None,
        arrival_burstiness=pvariance(counts) / fmean(counts) if is_enough else None,
        arrival_trend_ratio_per_hour=_trend(bins) if is_enough else None,
        arrivals_over_yesterday_ratio=day,
        arrivals_over_last_week_ratio=week,
        prompt_tokens=latency_between(sums.users_histogram("request_prompt_tokens")),
        output_tokens=latency_between(sums.users_histogram("request_generation_tokens")),
        concurrency=level_of(sums.inside),
        reuse_kind=reuse_kind(engines),
    )


def _arrivals(increments: Iterable[Increment]) -> Iterable[tuple[float, EngineKey, float]]:
    """(when read, engine, requests that came since it was read before): what ended, and what is newly inside."""
    inside: dict[EngineKey, float] = {}
    for increment in sorted(increments, key=attrgetter("to_seconds")):
        gauges = increment.gauges
        running, waiting = gauges.get(RUNNING), gauges.get(WAITING)
        if running is None or waiting is None:
            inside.pop(increment.key, None)
            continue
        before = 0.0 if increment.restarted else inside.get(increment.key)
        inside[increment.key] = running + waiting
        if before is not None:
            ended = sum([n for (signal, _), n in increment.counters.items() if signal == "requests_finished_total"])
            yield increment.to_seconds, increment.key, max(0.0, ended + running + waiting - before)


def _binned(arrivals: Sequence[tuple[float, float]], increments: Sequence[Increment]) -> list[tuple[float, float]]:
    """(middle of the bin, arrivals in it), the first and the last bin left out: they are not whole."""
    gaps = [i.to_seconds - i.from_seconds for i in increments]
    if not gaps or not arrivals:
        return []
    width, bins = max(GAPS_A_BIN * median(gaps), *gaps), defaultdict[int, float](float)
    for at, count in arrivals:
        bins[floor(at / width)] += count
    return [((place + 0.5) * width, bins.get(place, 0.0)) for place in range(min(bins) + 1, max(bins))]


def _trend(bins: Sequence[tuple[float, float]]) -> float | None:
    """The slope of the least-squares line through the bins, per hour, over their mean; None over too short a time."""
    times, counts = [at for at, _ in bins], [count for _, count in bins]
    if times[-1] - times[0] < TREND_SECONDS:
        return None
    middle, mean = fmean(times), fmean(counts)
    spread = sum((at - middle) ** 2 for at in times)
    return sum((at - middle) * (count - mean) for at, count in bins) / spread * 3_600 / mean


def _against(events: TimeBuckets | None, end: float, seconds: float, days: int) -> float | None:
    """Events of the window over those of the same window so many days before; None where that was not watched."""
    if events is None or events.began_at_seconds is None or seconds <= 0:
        return None
    start = end - seconds
    if events.began_at_seconds > start - days * DAY_SECONDS:
        return None
    now = events.since(start).total - events.since(end).total
    shift = days * DAY_SECONDS
    then = events.since(start - shift).total - events.since(end - shift).total
    return now / then if then > 0 else None


def reuse_kind(increments: Iterable[Increment]) -> str | None:
    """One of "none", "shared_prefix", "multi_turn" and "unclear"; None where no page counts cache hits.

    A prefix that all share is as long for every request, so hits per request vary less than hits per prompt token; what
    a conversation said before grows with its prompts, so it is the other way round.
    """
    hits, asked, firsts = [], [], []
    for increment in increments:
        hit = increment.counters.get(("prefix_cache_hit_tokens_total", ""))
        queried = increment.counters.get(("prefix_cache_queried_tokens_total", ""))
        first = increment.histograms.get("ttft_seconds")
        if hit is not None and queried and first is not None and first.count > 0:
            hits.append(hit)
            asked.append(queried)
            firsts.append(first.count)
    if not hits:
        return None
    if sum(hits) < REUSED_RATIO * sum(asked):
        return "none"
    if len(hits) < FEWEST_BINS:
        return "unclear"
    by_request, by_token = (_spread([h / n for h, n in zip(hits, of, strict=True)]) for of in (firsts, asked))
    if by_request * CLEARLY < by_token:
        return "shared_prefix"
    return "multi_turn" if by_token * CLEARLY < by_request else "unclear"


def _spread(values: Sequence[float]) -> float:
    """Variance over the square of the mean."""
    mean = fmean(values)
    return pvariance(values) / mean**2 if mean else 0.0
