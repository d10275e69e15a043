"""How requests ended by a router's own counters: each kind of router counts in its own way.

Requests of clients that hung up, or that asked for what cannot be, are told apart: nobody promised them anything.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from agent.raw import SignalKey

CLIENTS_FAULTS = ("validation", "not_found", "not_implemented", "BadRequest", "NotFound")
HUNG_UP = ("cancelled", "Canceled", "ContextCanceled")
AFTER_SCHEDULING = ("ModelServerError",)  # the endpoint picker's code for what an endpoint answered


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Requests by how they ended. `failed` is by reason, in the router's words; `refused` were the client's fault.

    `overdrawn`: so many more ended otherwise than were counted as gone out; they went out, and were taken to be
    answered, before these rises began.
    """

    answered: float = 0.0
    failed: Mapping[str, float] = field(default_factory=dict)
    cancelled: float = 0.0
    refused: float = 0.0
    overdrawn: float = 0.0

    @property
    def failures(self) -> float:
        return sum(self.failed.values())


def outcomes_of(source: str, counters: Mapping[SignalKey, float]) -> Outcomes:
    """How the requests ended that these rises of counters tell of."""
    return _ARITHMETIC[source](counters)


def _dynamo(counters: Mapping[SignalKey, float]) -> Outcomes:
    """Every ended request under its outcome; streams that were cut off are `unavailable`."""
    ended = _by_label(counters, "router_requests_total")
    return Outcomes(
        ended.get("success", 0.0),
        _without(ended, ("success", *CLIENTS_FAULTS, *HUNG_UP)),
        _sum_of(ended, HUNG_UP),
        _sum_of(ended, CLIENTS_FAULTS),
    )


def _endpoint_picker(counters: Mapping[SignalKey, float]) -> Outcomes:
    """Scheduled requests are counted when they go out; failures of their endpoints are among them, others are not."""
    scheduled = sum(_by_label(counters, "router_scheduled_requests_total").values())
    errors = _by_label(counters, "router_failed_requests_total")
    answered = scheduled - _sum_of(errors, (*AFTER_SCHEDULING, *HUNG_UP))
    return Outcomes(
        max(0.0, answered),
        _without(errors, (*CLIENTS_FAULTS, *HUNG_UP)),
        _sum_of(errors, HUNG_UP),
        _sum_of(errors, CLIENTS_FAULTS),
        max(0.0, -answered),
    )


def _vllm_router(counters: Mapping[SignalKey, float]) -> Outcomes:
    """Alone, failed requests are in no count of requests; through prefill and decode those with a worker are.

    Tried with 0.1.17: workers that answer 500, that are killed, and none at all. A stream that breaks off counts as
    answered in both.
    """
    pd_requests = sum(_by_label(counters, "router_pd_requests_total").values())
    in_prefill = sum(_by_label(counters, "router_pd_prefill_failed_requests_total").values())
    in_decode = sum(_by_label(counters, "router_pd_decode_failed_requests_total").values())
    before = _by_label(counters, "router_pd_failed_requests_total")
    answered = sum(_by_label(counters, "router_answered_requests_total").values())
    exhausted = sum(_by_label(counters, "router_exhausted_requests_total").values())
    failed = {**before, "prefill": in_prefill, "decode": in_decode, "every attempt failed": exhausted}
    through_both = pd_requests - in_prefill - in_decode
    went_well = answered + max(0.0, through_both)
    return Outcomes(went_well, {why: n for why, n in failed.items() if n}, overdrawn=max(0.0, -through_both))


def _production_stack(counters: Mapping[SignalKey, float]) -> Outcomes:
    """Requests are counted when they come in."""
    received = sum(_by_label(counters, "router_received_requests_total").values())
    errors = _by_label(counters, "router_failed_requests_total")
    answered = received - sum(errors.values())
    return Outcomes(max(0.0, answered), errors, overdrawn=max(0.0, -answered))


_ARITHMETIC: Mapping[str, Callable[[Mapping[SignalKey, float]], Outcomes]] = {
    "dynamo_frontend": _dynamo,
    "llm_d_epp": _endpoint_picker,
    "vllm_router": _vllm_router,
    "production_stack_router": _production_stack,
}


def _by_label(counters: Mapping[SignalKey, float], signal: str) -> dict[str, float]:
    return {label: rise for (name, label), rise in counters.items() if name == signal}


def _sum_of(counts: Mapping[str, float], labels: Iterable[str]) -> float:
    return sum(counts.get(label, 0.0) for label in labels)


def _without(counts: Mapping[str, float], labels: Iterable[str]) -> dict[str, float]:
    left_out = set(labels)
    return {label: count for label, count in counts.items() if label not in left_out and count}
