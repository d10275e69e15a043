"""Burn rates: how many times faster than allowed the error budget is being spent, over two windows at once.

Source: The Site Reliability Workbook, chapter 5, "Alerting on SLOs", multi-window, multi-burn-rate alerts.
"""

from agent.model import Burn, BurnPair, Counts, Slo
from agent.stats.time_buckets import TimeBuckets

ROUNDING_RATIO = 1e-9  # floats: 1 - 0.9 is less than 0.1, and 1/10 of bad events would burn faster than allowed


def burn(slo: Slo, pair: BurnPair, events: TimeBuckets, now_seconds: float) -> Burn:
    """How one pair stands at `now_seconds`, with its reason.

    A long window must not speak for time it has not seen: while it is not yet full, the rest of it is taken to be just
    as busy, and good. So an agent that has just started fires when one that had always watched would.
    """
    short, long = events.since(now_seconds - pair.short_seconds), events.since(now_seconds - pair.long_seconds)
    coverage = events.coverage_ratio(pair.long_seconds, now_seconds)
    short_rate = burn_rate(slo, short)
    long_rate = burn_rate(slo, long, coverage)
    reason = _reason(slo, pair, short_rate, long_rate, long)
    return Burn(pair, short_rate, long_rate, short, long, reason == "burning", reason, coverage)


def burn_rate(slo: Slo, counts: Counts, coverage_ratio: float = 1.0) -> float | None:
    """bad / total / budget; 1 spends exactly the whole budget by the end of the period. None without events."""
    total = counts.good + counts.bad + counts.undecided
    if total <= 0 or coverage_ratio <= 0:
        return None
    return bad_events(slo, counts) / (total / coverage_ratio) / slo.budget_ratio


def bad_events(slo: Slo, counts: Counts) -> float:
    """Events that spend budget: the bad ones, and the undecided ones where the SLO counts them so."""
    return counts.bad + (counts.undecided if slo.undecided == "bad" else 0.0)


def _reason(slo: Slo, pair: BurnPair, short_rate: float | None, long_rate: float | None, long: Counts) -> str:
    if short_rate is None or long_rate is None:
        return "no_events"
    if min(short_rate, long_rate) <= pair.factor * (1 + ROUNDING_RATIO):
        return "within_budget"
    if bad_events(slo, long) < slo.min_bad_events:
        return "too_few_bad_events"
    return "burning"
