"""Good and bad requests as the engine counts them: every user's, without those of our canaries that were found."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agent.model import Counts, SliName, Slo
from agent.own import Own
from agent.sli.goodput import JointRequests
from agent.sli.pending import Ended, Inside, PendingRequests
from agent.stats.buckets import numbers_at, split_at
from agent.windows import Increment

ANSWERED_REASONS = ("stop", "length", "repetition")
FAILED_REASONS = ("error", "abort")  # engine-side aborts; clients that hang up are in no reason
HISTOGRAMS: Mapping[SliName, str] = {
    "ttft": "ttft_seconds",
    "itl": "itl_seconds",
    "tpot": "tpot_seconds",
    "e2e": "e2e_seconds",
    "queue": "queue_seconds",
    "goodput": "tpot_seconds",
}


UNTIL_THE_END: tuple[SliName, ...] = ("availability", "e2e")
UNTIL_FIRST_TOKEN: tuple[SliName, ...] = ("ttft", "queue", "goodput")  # pending are those in the queue
Balance = PendingRequests | JointRequests
NOTHING_OWN = Own()


class Outcomes(NamedTuple):
    """The users' requests of one increment by how they ended."""

    answered: float
    failed: float
    refused: float


def outcomes_of(increment: Increment) -> Outcomes:
    """What `ended_requests` asks of an increment whatever the question."""
    refused = sum(increment.users("requests_rejected_total").values())
    return Outcomes(_finished(increment, ANSWERED_REASONS), _finished(increment, FAILED_REASONS), refused)


def ended_requests(slo: Slo, increment: Increment, outcomes: Outcomes) -> Ended:
    """The requests that ended in one increment, by what their end says to an SLO; the same for all of one question."""
    if slo.sli == "availability":
        return _answers(slo, increment, outcomes)
    if slo.sli == "goodput":
        return _split(increment, "ttft_seconds", slo.ttft_seconds)
    return _split(increment, HISTOGRAMS[slo.sli], slo.threshold_seconds)


def engine_counts(
    slo: Slo, increment: Increment, ended: Ended, pending: Balance | None, inside: Inside | None
) -> Counts:
    """What one increment adds to an SLO: requests that ended in it, and pending ones that became late.

    A pending request is charged once, when it is late: when it ends later on, its end is not charged again. `inside` is
    what `inside_at_end` says.
    """
    if pending is None:
        return Counts(ended.in_time + ended.answered, ended.bad + ended.refused, ended.undecided)
    if isinstance(pending, JointRequests):
        return _joint(slo, increment, ended, inside, pending)
    return pending.observe(increment.to_seconds, ended, inside, restarted=increment.restarted)


def pending_for(slo: Slo) -> Balance | None:
    """The balance an SLO needs per engine; None for one that can only judge ended requests."""
    if slo.sli == "goodput" and slo.ttft_seconds is not None:
        return JointRequests(PendingRequests(slo.ttft_seconds))
    if slo.sli not in (*UNTIL_THE_END, *UNTIL_FIRST_TOKEN) or slo.threshold_seconds is None:
        return None
    return PendingRequests(slo.threshold_seconds)


def counted_signal(slo: Slo) -> str:
    """The signal without which a page says nothing about this SLO."""
    finished = "requests_finished_total"
    return finished if slo.source == "span" else HISTOGRAMS.get(slo.sli, finished)


def _joint(slo: Slo, increment: Increment, first: Ended, inside: Inside | None, balance: JointRequests) -> Counts:
    pace = _split(increment, "tpot_seconds", slo.tpot_seconds)
    failed = _finished(increment, FAILED_REASONS)
    return balance.observe(
        increment.to_seconds,
        first,
        Counts(pace.in_time, pace.bad, pace.undecided),
        failed,
        inside,
        restarted=increment.restarted,
    )


def _split(increment: Increment, signal: str, threshold: float | None) -> Ended:
    buckets = increment.histograms.get(signal)
    if buckets is None or threshold is None:
        return Ended()
    if increment.own is None:
        good, bad, undecided = numbers_at(buckets, threshold)
        return Ended(good, 0.0, bad, undecided)
    counts = _users(increment, signal, threshold, split_at(buckets, threshold))
    return Ended(in_time=counts.good, bad=counts.bad, undecided=counts.undecided)


def _users(increment: Increment, signal: str, threshold: float, counts: Counts) -> Counts:
    """The users' part of these counts. Of ours, those that may lie on either side leave as many undecided."""
    ours = increment.own.histograms.get(signal) if increment.own is not None else None
    if ours is None:
        return counts
    low, high = split_at(ours.low, threshold), split_at(ours.high, threshold)
    good, bad = max(0.0, counts.good - low.good), max(0.0, counts.bad - high.bad)
    return Counts(good, bad, max(0.0, counts.total - low.total - good - bad))


def _answers(slo: Slo, increment: Increment, outcomes: Outcomes) -> Ended:
    """Failed and refused requests are bad, and so are answers that took too long for certain (the E2E histogram).

    Which of the late ones also failed is not known: as many as could have are undecided.
    """
    answered, failed, refused = outcomes
    buckets = increment.histograms.get("e2e_seconds")
    if buckets is None or slo.threshold_seconds is None:
        return Ended(answered=answered, bad=failed, refused=refused)
    split = _users(increment, "e2e_seconds", slo.threshold_seconds, split_at(buckets, slo.threshold_seconds))
    late = min(max(0.0, split.bad - failed), answered)
    undecided = min(failed, split.bad, answered - late)
    in_time = min(max(0.0, split.good - failed), answered - late - undecided)
    return Ended(in_time, answered - late - undecided - in_time, failed + late, undecided, refused)


def _finished(increment: Increment, reasons: Iterable[str]) -> float:
    """The users' requests that ended for one of these reasons."""
    ours = increment.own.counters if increment.own is not None else {}
    places = [("requests_finished_total", reason) for reason in reasons]
    return sum([increment.counters[place] - ours.get(place, 0.0) for place in places if place in increment.counters])


def waits_for_first_token(slo: Slo) -> bool:
    """Whether its pending requests are those without a first token, and not all that have not ended."""
    return slo.sli in UNTIL_FIRST_TOKEN


def inside_at_end(increment: Increment, *, first_token: bool) -> Inside | None:
    """The requests in the engine at the end of an increment; None where its page does not say."""
    running, waiting = increment.gauges.get(("requests_running", "")), increment.gauges.get(("requests_waiting", ""))
    if running is None or waiting is None:
        return None
    own = increment.own or NOTHING_OWN
    total = max(0.0, running + waiting - own.in_flight)
    if not first_token:
        return Inside(total, total)
    return Inside(max(0.0, waiting - own.unanswered), total, increment.counters.get(("preemptions_total", ""), 0.0))
