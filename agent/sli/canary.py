"""Good and bad canaries: exact, one event each."""

from agent.model import Counts, Events, SliName, Slo
from probes.canary.outcomes import WHAT_IS_SAID, is_bad
from probes.sample import ProbeResult


def canary_events(slo: Slo, result: ProbeResult, *, has_succeeded: bool) -> Events:
    """What one canary result adds to an SLO. Skipped ones and our own mistakes say nothing about the service.

    A failed canary is bad for every SLI: a user would not call it fast. A figure the stream could not show leaves the
    event undecided. `has_succeeded`: this target has answered a canary well before (see probes/canary/outcomes.py).
    """
    return Events(result.at_seconds, result.at_seconds, _counts(slo, result, has_succeeded=has_succeeded))


def _counts(slo: Slo, result: ProbeResult, *, has_succeeded: bool) -> Counts:
    if slo.sli == "correctness":
        return _said(result)
    failed = is_bad(result.outcome, has_succeeded=has_succeeded)
    if failed is None or not result.feels_like_a_user:
        return Counts()
    if failed:
        return Counts(bad=1)
    if slo.sli == "availability" and slo.threshold_seconds is None:
        return Counts(good=1)
    if slo.sli == "goodput":
        parts = (_against("ttft", result, slo.ttft_seconds), _against("tpot", result, slo.tpot_seconds))
        return max(parts, key=lambda counts: (counts.bad, counts.undecided))  # both must be kept: the worse one tells
    return _against(slo.sli, result, slo.threshold_seconds)


def _said(result: ProbeResult) -> Counts:
    """What an answer says: the second strike is bad; no answer at all says nothing about what it would have said."""
    if result.kind != "correctness":
        return Counts()
    if result.outcome in WHAT_IS_SAID:
        return Counts(bad=1)
    if not result.is_ok:
        return Counts()
    return Counts(undecided=1) if result.figures.get("answer_right") is None else Counts(good=1)


def _against(sli: SliName, result: ProbeResult, threshold: float | None) -> Counts:
    """A figure that the client itself may have moved across the threshold is undecided.

    A stamp may be too late, never too early: TTFT and E2E too long. What lies between two stamps may be either.
    """
    figure, error = _figure(sli, result), result.timing_error_seconds or 0.0
    if figure is None or threshold is None:
        return Counts(undecided=1)
    if sli == "tpot":
        error /= max(1, (result.output_tokens or 2) - 1)
    longest = figure + error if sli in ("tpot", "stall") else figure
    if longest <= threshold:
        return Counts(good=1)
    return Counts(bad=1) if figure - error > threshold else Counts(undecided=1)


def _figure(sli: SliName, result: ProbeResult) -> float | None:
    return {
        "ttft": result.ttft_seconds,
        "tpot": result.tpot_seconds,
        "e2e": result.e2e_seconds,
        "availability": result.e2e_seconds,
        "stall": max(result.itl_gaps_seconds, default=None),
    }.get(sli)
