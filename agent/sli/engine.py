"""Good and bad requests as the engine counts them: every user's, our canaries' included (`probe_share_ratio` says how
many those are).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from agent.model import Counts, Events, SliName, Slo
from agent.sli.pending import Late, PendingRequests
from agent.stats.buckets import split_at
from agent.windows import Increment

ANSWERED_REASONS = ("stop", "length", "repetition")
FAILED_REASONS = ("error", "abort")  # engine-side aborts; clients that hang up are in no reason
HISTOGRAMS: Mapping[SliName, str] = {
    "ttft": "ttft_seconds",
    "itl": "itl_seconds",
    "tpot": "tpot_seconds",
    "e2e": "e2e_seconds",
    "queue": "queue_seconds",
}


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Which gauges hold the requests that have not reached the end that an SLI waits for."""

    gauges: tuple[str, ...]


WAITING: Mapping[SliName, _Waiting] = {
    "availability": _Waiting(("requests_running", "requests_waiting")),
    "e2e": _Waiting(("requests_running", "requests_waiting")),
    "ttft": _Waiting(("requests_waiting",)),
    "queue": _Waiting(("requests_waiting",)),
}


def engine_events(slo: Slo, increment: Increment, pending: PendingRequests | None) -> Events:
    """What one increment adds to an SLO: requests that ended in it, and pending ones that became late.

    A pending request is charged once, when it is late: when it ends later on, its end is not charged again.
    """
    ended = _ended(slo, increment)
    late = Late()
    if pending is not None and (in_flight := _in_flight(slo.sli, increment)) is not None:
        late = pending.observe(increment.to_seconds, ended.total, in_flight, restarted=increment.restarted)
    counts = _without(ended, late.resolved) + Counts(bad=late.newly_late + late.lost)
    return Events(increment.from_seconds, increment.to_seconds, counts)


def pending_for(slo: Slo) -> PendingRequests | None:
    """The balance an SLO needs per engine; None for one that can only judge ended requests."""
    if slo.sli not in WAITING or slo.threshold_seconds is None:
        return None
    return PendingRequests(slo.threshold_seconds)


def _ended(slo: Slo, increment: Increment) -> Counts:
    if slo.sli == "availability":
        finished = {
            label: n for (signal, label), n in increment.counters.items() if signal == "requests_finished_total"
        }
        rejected = sum(n for (signal, _), n in increment.counters.items() if signal == "requests_rejected_total")
        good = sum(finished.get(reason, 0.0) for reason in ANSWERED_REASONS)
        return Counts(good, sum(finished.get(reason, 0.0) for reason in FAILED_REASONS) + rejected)
    buckets = increment.histograms.get(HISTOGRAMS[slo.sli])
    if buckets is None or slo.threshold_seconds is None:
        return Counts()
    return split_at(buckets, slo.threshold_seconds)


def _in_flight(sli: SliName, increment: Increment) -> float | None:
    values = [increment.gauges.get((gauge, "")) for gauge in WAITING[sli].gauges]
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _without(counts: Counts, charged: float) -> Counts:
    """The counts less requests already charged as late: those ended above the threshold, or answered too late."""
    bad = min(counts.bad, charged)
    undecided = min(counts.undecided, charged - bad)
    good = min(counts.good, charged - bad - undecided)
    return Counts(counts.good - good, counts.bad - bad, counts.undecided - undecided)
