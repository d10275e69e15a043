"""The standing of an SLO: its burn pairs, its budget, and one word for its state."""

from collections.abc import Sequence
from dataclasses import replace

from agent.model import Budget, Burn, Silence, Slo, SloState, SloStatus
from agent.slo.burn import bad_events, burn, expected_events
from agent.slo.exclusions import Exclusion, Span, counted, excluded_spans, seconds_within, told
from agent.slo.period import budget_period
from agent.stats.time_buckets import TimeBuckets

HELD_BACK = ("too_few_bad_events", "too_little_volume")  # both windows burn, on too little to say so


def slo_status(
    slo: Slo,
    events: TimeBuckets,
    now_seconds: float,
    *,
    no_data: Silence | None = None,
    lost_at_seconds: float | None = None,
    exclusions: tuple[Exclusion, ...] = (),
) -> SloStatus:
    """Everything about one SLO at `now_seconds`. `no_data` says why nobody tells us what happens; None: somebody does.

    Of an SLO that counts slices `now_seconds` is when the last one that is judged was over.
    `lost_at_seconds` is when the counts of before were lost, None where they were not.
    """
    start, spans = now_seconds, list[Span]()
    if exclusions:
        longest = max([slo.period_seconds, *(pair.long_seconds for pair in slo.pairs)])
        start = min(now_seconds - longest, budget_period(slo, now_seconds).start_seconds)
        spans = excluded_spans(exclusions, slo.name, start, now_seconds)
    budget = error_budget(slo, events, now_seconds, lost_at_seconds, spans)
    if slo.slice_seconds is not None:
        budget = replace(budget, empty_slices=_empty_slices(slo, budget, events, now_seconds, spans))
    period_events = expected_events(slo, events, now_seconds) if slo.volume_gate else None
    burns = tuple([burn(slo, pair, events, now_seconds, period_events, spans) for pair in slo.pairs])
    state = _state(budget, burns, has_data=no_data is None)
    silence = no_data or silence_of(state, burns, has_slices=slo.slice_seconds is not None)
    excluded = tuple(told(exclusions, slo.name, events, start, now_seconds)) if spans else ()
    return SloStatus(slo, state, burns, budget, events.last_event_at_seconds, silence, excluded)


def error_budget(
    slo: Slo,
    events: TimeBuckets,
    now_seconds: float,
    lost_at_seconds: float | None = None,
    excluded: Sequence[Span] = (),
) -> Budget:
    """What is left of the budget of the period; see `Budget` for a period that is only partly covered.

    1 - bad / (budget_ratio * events of the period); negative when overspent. None without events: an unused service
    keeps no promise. None as well while the period reaches back to counts that were lost: they were not all good.
    """
    start, length = budget_period(slo, now_seconds)
    counts = counted(events, start, now_seconds, excluded)
    began = now_seconds if events.began_at_seconds is None else max(start, events.began_at_seconds)
    coverage = min(1.0, max(0.0, now_seconds - began) / length)
    if counts.total <= 0 or coverage <= 0:
        return Budget(None, counts, coverage)
    bad, total = bad_events(slo, counts), counts.total
    spent = bad / (slo.budget_ratio * total)
    watched = now_seconds - began - (seconds_within(excluded, began, now_seconds) if excluded else 0.0)
    violated = bad / total * max(0.0, watched) / 60
    if lost_at_seconds is not None and start < lost_at_seconds:
        return Budget(None, counts, coverage, 1.0 - spent, violated)
    return Budget(1.0 - spent * coverage, counts, coverage, 1.0 - spent, violated)


def _empty_slices(slo: Slo, budget: Budget, events: TimeBuckets, now_seconds: float, excluded: Sequence[Span]) -> float:
    """Slices of the covered part of the period, without those that have a verdict and those that are excluded."""
    began = now_seconds if events.began_at_seconds is None else events.began_at_seconds
    since = max(budget_period(slo, now_seconds).start_seconds, began)
    out = sum(max(0.0, min(end, now_seconds) - max(begin, since)) for begin, end in excluded)
    watched = max(0.0, now_seconds - since - out) / (slo.slice_seconds or 1.0)
    return max(0.0, watched - budget.counts.total)


def _state(budget: Budget, burns: tuple[Burn, ...], *, has_data: bool) -> SloState:
    if any(b.is_burning for b in burns):
        return "burning"
    if not has_data:
        return "no_data"
    if (burns[0].long_counts if burns else budget.counts).total <= 0:
        return "no_traffic"
    if budget.remaining_ratio is not None and budget.remaining_ratio <= 0:
        return "exhausted"
    if any(b.reason in HELD_BACK for b in burns):
        return "insufficient_data"
    return "ok"


def silence_of(state: SloState, burns: tuple[Burn, ...], *, has_slices: bool = False) -> Silence | None:
    """Why sources that are well say too little; None where they say enough."""
    if state == "no_traffic":
        came = "no slice of time with a request in it is over" if has_slices else "no request came"
        return Silence("idle", f"the sources are well, and {came}")
    held = next((b for b in burns if b.reason in HELD_BACK), None) if state == "insufficient_data" else None
    if held is None:
        return None
    few = f"{held.long_counts.bad + held.long_counts.undecided:.0f} of {held.long_counts.total:.0f} events were bad"
    return Silence("insufficient", f"{few}: fast, but too few to alert on")
