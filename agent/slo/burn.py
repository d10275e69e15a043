"""Burn rates: how many times faster than allowed the error budget is being spent, over two windows at once.

Source: The Site Reliability Workbook, chapter 5, "Alerting on SLOs", multi-window, multi-burn-rate alerts.
"""

from collections.abc import Sequence

from agent.model import Burn, BurnPair, Counts, Slo
from agent.slo.exclusions import Span, counted
from agent.stats.time_buckets import TimeBuckets

ROUNDING_RATIO = 1e-9  # floats: 1 - 0.9 is less than 0.1, and 1/10 of bad events would burn faster than allowed
VOLUME_KNOWN_SECONDS = 86_400.0  # traffic has a day and a night: before a whole one was watched its volume is not known
OUTAGE_RATIO = 0.5  # so many bad events of a long window are an outage, however few they are
VOLUME_SHARE = 0.5  # of what the long window spends at mean traffic: down to half of it a pair is as quick as ever


def burn(
    slo: Slo,
    pair: BurnPair,
    events: TimeBuckets,
    now_seconds: float,
    period_events: float | None = None,
    excluded: Sequence[Span] = (),
) -> Burn:
    """How one pair stands at `now_seconds`, with its reason.

    A long window must not speak for time it has not seen: while it is not yet full, the rest of it is taken to be just
    as busy, and good. So an agent that has just started fires when one that had always watched would.
    `period_events` are those of a whole period, see `expected_events`; None: no gate on the volume. Events of the spans
    in `excluded` do not count; where they alone keep the pair from burning, the reason is "excluded".
    """
    since = now_seconds - pair.short_seconds, now_seconds - pair.long_seconds
    short = counted(events, since[0], now_seconds, excluded)
    long = counted(events, since[1], now_seconds, excluded)
    coverage = events.coverage_ratio(pair.long_seconds, now_seconds)
    short_rate, long_rate = burn_rate(slo, short), burn_rate(slo, long, coverage)
    spent = bad_events(slo, long) / (slo.budget_ratio * period_events) if period_events else None
    reason = _reason(slo, pair, short_rate, long_rate, long, spent)
    if excluded and reason != "burning" and any(until > since[1] for _, until in excluded):
        reason = "excluded" if burn(slo, pair, events, now_seconds, period_events).is_burning else reason
    return Burn(pair, short_rate, long_rate, short, long, reason == "burning", reason, coverage, spent)


def burn_rate(slo: Slo, counts: Counts, coverage_ratio: float = 1.0) -> float | None:
    """bad / total / budget; 1 spends exactly the whole budget by the end of the period. None without events."""
    total = sum(counts)
    if total <= 0 or coverage_ratio <= 0:
        return None
    return bad_events(slo, counts) / (total / coverage_ratio) / slo.budget_ratio


def bad_events(slo: Slo, counts: Counts) -> float:
    """Events that spend budget: the bad ones, and the undecided ones where the SLO counts them so."""
    return counts.bad + counts.undecided if slo.undecided == "bad" else counts.bad


def expected_events(slo: Slo, events: TimeBuckets, now_seconds: float) -> float | None:
    """Events of a whole period at the traffic that was watched; None before a day of it was, and without events."""
    coverage = events.coverage_ratio(slo.period_seconds, now_seconds)
    if coverage * slo.period_seconds < VOLUME_KNOWN_SECONDS:
        return None
    return events.since(now_seconds - slo.period_seconds).total / coverage or None


def _reason(
    slo: Slo, pair: BurnPair, short_rate: float | None, long_rate: float | None, long: Counts, spent: float | None
) -> str:
    if short_rate is None or long_rate is None:
        return "no_events"
    allowed = pair.factor * (1 + ROUNDING_RATIO)
    if short_rate <= allowed or long_rate <= allowed:
        return "within_budget"
    bad = bad_events(slo, long)
    if bad < slo.min_bad_events:
        return "too_few_bad_events"
    if slo.volume_gate and spent is not None and bad < OUTAGE_RATIO * long.total:
        share = pair.factor * pair.long_seconds / slo.period_seconds
        if spent < VOLUME_SHARE * share:
            return "too_little_volume"
    return "burning"
