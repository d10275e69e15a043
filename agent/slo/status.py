"""The standing of an SLO: its burn pairs, its budget, and one word for its state."""

from agent.model import Budget, Burn, Slo, SloState, SloStatus
from agent.slo.burn import bad_events, burn
from agent.stats.time_buckets import TimeBuckets


def slo_status(
    slo: Slo,
    events: TimeBuckets,
    now_seconds: float,
    *,
    has_fresh_sources: bool,
    lost_at_seconds: float | None = None,
) -> SloStatus:
    """Everything about one SLO at `now_seconds`. `has_fresh_sources`: somebody still tells us what happens.

    `lost_at_seconds` is when the counts of before were lost, None where they were not.
    """
    burns = tuple(burn(slo, pair, events, now_seconds) for pair in slo.pairs)
    budget = error_budget(slo, events, now_seconds, lost_at_seconds)
    state = _state(budget, burns, has_fresh_sources=has_fresh_sources)
    return SloStatus(slo, state, burns, budget, events.last_event_at_seconds)


def error_budget(slo: Slo, events: TimeBuckets, now_seconds: float, lost_at_seconds: float | None = None) -> Budget:
    """What is left of the budget of the rolling period; see `Budget` for a period that is only partly covered.

    1 - bad / (budget_ratio * events of the period); negative when overspent. None without events: an unused service
    keeps no promise. None as well while the period reaches back to counts that were lost: they were not all good.
    """
    counts = events.since(now_seconds - slo.period_seconds)
    coverage = events.coverage_ratio(slo.period_seconds, now_seconds)
    if counts.total <= 0 or coverage <= 0:
        return Budget(None, counts, coverage)
    spent = bad_events(slo, counts) / (slo.budget_ratio * counts.total)
    if lost_at_seconds is not None and now_seconds - slo.period_seconds < lost_at_seconds:
        return Budget(None, counts, coverage, 1.0 - spent)
    return Budget(1.0 - spent * coverage, counts, coverage, 1.0 - spent)


def _state(budget: Budget, burns: tuple[Burn, ...], *, has_fresh_sources: bool) -> SloState:
    if any(b.is_burning for b in burns):
        return "burning"
    if not has_fresh_sources:
        return "no_data"
    if (burns[0].long_counts if burns else budget.counts).total <= 0:
        return "no_traffic"
    if budget.remaining_ratio is not None and budget.remaining_ratio <= 0:
        return "exhausted"
    if any(b.reason == "too_few_bad_events" for b in burns):
        return "insufficient_data"
    return "ok"
