"""Alerts of SLOs: a burning pair, a spent budget. Each explains itself with the counts it was computed from."""

from collections.abc import Iterator

from agent.alerts.book import Wanted, alert_labels
from agent.alerts.cause import Cause
from agent.model import Budget, Burn, Slo, SloStatus
from agent.plan import Plan
from agent.slo.burn import bad_events

DAY_SECONDS = 86_400.0


def burn_labels(slo: Slo, burn: Burn, node: str | None) -> tuple[tuple[str, str], ...]:
    """The identity of the alert for one pair of an SLO."""
    return alert_labels(
        "SLOBurnRate",
        burn.pair.severity,
        node,
        tier=burn.pair.tier,
        slo=slo.name,
        service=slo.service,
        model=slo.model,
        role=slo.role,
    )


def slo_alerts(status: SloStatus, cause: Cause, advice: str, plan: Plan) -> Iterator[Wanted]:
    """The alerts one SLO wants now. `advice` is the open recommendation in a sentence, "" for none."""
    slo = status.slo
    common = {
        "cause": cause.words,
        "recommendation": _advised(slo, advice),
        "budget": budget_words(status.budget),
        "runbook_url": slo.runbook_url,
        "dashboard_url": plan.dashboard_url,
        "page_url": plan.page_url,
    }
    for burn in status.burns:
        if burn.is_burning:
            description = burn_words(slo, burn) + _recovery_words(status, burn)
            words = {"summary": _summary(slo, burn), "description": description, **common}
            calm = slo.calm_windows * burn.pair.short_seconds
            yield Wanted(burn_labels(slo, burn, plan.node), words, burn.pair.long_seconds, calm)
    if _is_spent(status):
        words = {
            "summary": f"{slo.name}: the error budget is spent",
            "description": budget_words(status.budget),
            **common,
        }
        yield Wanted(spent_labels(slo, plan.node), words, DAY_SECONDS, slo.calm_windows * DAY_SECONDS / 12)


def _advised(slo: Slo, advice: str) -> str:
    """The open recommendation, and what was agreed to happen to a spent budget."""
    policy = f"error budget policy: {slo.policy}" if slo.policy else ""
    return "; ".join(words for words in (advice, policy) if words) or "no recommendation is open"


def spent_labels(slo: Slo, node: str | None) -> tuple[tuple[str, str], ...]:
    """The identity of the alert for a spent budget."""
    return alert_labels(
        "SLOBudgetExhausted", "ticket", node, slo=slo.name, service=slo.service, model=slo.model, role=slo.role
    )


def wants_alerts(status: SloStatus) -> bool:
    """Whether `slo_alerts` has any for it, whatever else its state says."""
    return any(burn.is_burning for burn in status.burns) or _is_spent(status)


def held_labels(status: SloStatus, plan: Plan, now_seconds: float) -> Iterator[tuple[tuple[str, str], ...]]:
    """Alerts of an SLO that nobody tells about, and of pairs whose windows saw no events: silence does not show that
    the trouble is over. For `hold_seconds` after the last event; then it shows that nobody cares.
    """
    last, slo = status.last_event_at_seconds, status.slo
    if last is not None and now_seconds - last > slo.hold_seconds:
        return
    is_silent = status.silence is not None and status.silence.reason in ("rolling_out", "down", "blind")
    for burn in status.burns:
        if is_silent or burn.reason == "no_events":
            yield burn_labels(slo, burn, plan.node)
    if is_silent:
        yield spent_labels(slo, plan.node)


def burn_words(slo: Slo, burn: Burn) -> str:
    """The arithmetic of one pair in a sentence a person can check."""
    bad, total = bad_events(slo, burn.long_counts), burn.long_counts.total
    undecided = f" ({burn.long_counts.undecided:.0f} of them undecided)" if burn.long_counts.undecided else ""
    watched = _watched_words(burn)
    return (
        f"{bad:.0f} of {total:.0f} {_event_word(slo)} in the last {window_word(burn.pair.long_seconds)} were bad"
        f"{undecided}{watched}: {burn.long_rate or 0:.1f} times the {slo.budget_ratio:.2%} the objective allows; over "
        f"{window_word(burn.pair.short_seconds)} it is {burn.short_rate or 0:.1f} times. "
        f"Alerts above {burn.pair.factor:g} times. Good means: {good_words(slo)}."
    )


def _watched_words(burn: Burn) -> str:
    if burn.coverage_ratio >= 1:
        return ""
    minutes = burn.coverage_ratio * burn.pair.long_seconds / 60
    return f" ({minutes:.0f} min of it were watched, the rest is taken as good)"


def _recovery_words(status: SloStatus, burn: Burn) -> str:
    """Told while the alert still fires, but the newest window keeps the objective."""
    newest = min(status.burns, key=lambda b: b.pair.short_seconds)
    if newest.short_rate is None or newest.short_rate > 1:
        return ""
    return (
        f" It is recovering: the last {window_word(newest.pair.short_seconds)} keep the objective, and the alert ends "
        f"when the last {window_word(burn.pair.short_seconds)} do."
    )


def good_words(slo: Slo) -> str:
    """What a good event of this SLO is: a slice of time, or what happened."""
    if slo.all_of:
        return f"slices of {window_word(slo.slice_seconds or 0.0)} that are good for {', '.join(slo.all_of)}"
    if slo.slice_seconds is not None:
        each = f"of the events of {window_word(slo.slice_seconds)}"
        return f"at least {100 * (slo.slice_good_ratio or 0):g}% {each}: {_good_event_words(slo)}"
    return _good_event_words(slo)


def _good_event_words(slo: Slo) -> str:
    limit = f"{slo.threshold_seconds:g} s" if slo.threshold_seconds is not None else ""
    if slo.sli == "availability":
        return f"answered without an error{f' within {limit}' if limit else ''}"
    if slo.sli == "goodput":
        return f"TTFT at most {slo.ttft_seconds:g} s and TPOT at most {slo.tpot_seconds:g} s"
    if slo.sli == "correctness":
        return "a known answer given, no gibberish, no drift"
    if slo.sli == "stall":
        return f"no gap between two tokens over {limit}"
    return f"{slo.sli.upper()} at most {limit}"


def budget_words(budget: Budget) -> str:
    """What is left of the budget, and over how much of the period that is known."""
    if budget.remaining_ratio is None and budget.counts.total > 0:
        return (
            f"unknown: the counts of before were lost, and {budget.coverage_ratio:.1%} of the period was watched since"
        )
    if budget.remaining_ratio is None:
        return "unknown: no events were counted in the period"
    share = "under 0.1%" if budget.coverage_ratio < 0.001 else f"{budget.coverage_ratio:.1%}"
    covered = "" if budget.coverage_ratio >= 1 else f" ({share} of the period was watched, the rest counts as good)"
    return f"{budget.remaining_ratio:.1%} of the error budget is left{covered}"


def window_word(seconds: float) -> str:
    """300 -> "5m", 259200 -> "3d"."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"


def _is_spent(status: SloStatus) -> bool:
    left = status.budget.remaining_ratio
    return left is not None and left <= 0


def _summary(slo: Slo, burn: Burn) -> str:
    return (
        f"{slo.name} ({slo.service}): the error budget burns at {burn.long_rate or 0:.1f} times the allowed rate "
        f"over {window_word(burn.pair.long_seconds)}"
    )


def _event_word(slo: Slo) -> str:
    if slo.slice_seconds is not None:
        return f"slices of {window_word(slo.slice_seconds)}"
    if slo.source == "canary":
        return "canaries"
    if slo.source == "router":
        return "token gaps at the router" if slo.sli == "itl" else "requests at the router"
    return "token gaps" if slo.sli == "itl" else "requests"
