"""What routers and object stores did in a window, from the sums of what their pages said."""

from collections import defaultdict
from collections.abc import Iterable

from agent.raw import SignalKey
from agent.signals.model import ObjectStore, RouterWork
from agent.signals.outcomes import Outcomes, outcomes_of
from agent.signals.sums import Sums
from agent.stats.buckets import latency
from agent.windows import Increment
from probes.systems import ROUTERS


def router_work(sums: Sums, increments: Iterable[Increment]) -> RouterWork | None:
    """None where no router was read."""
    ends = [outcomes_of(source, counters) for source, counters in _by_router(increments).items()]
    if not ends:
        return None
    answered, failed = sum(end.answered for end in ends), sum(end.failures for end in ends)
    return RouterWork(
        answered=answered,
        failed=failed,
        failed_by_reason=_reasons(ends),
        cancelled=sum(end.cancelled for end in ends),
        refused=sum(end.refused for end in ends),
        failed_ratio=failed / (answered + failed) if answered + failed else None,
        retries=_sum_of(sums, "router_retries_total"),
        worker_failures=sums.counter("router_worker_outcomes_total", "failure"),
        prompt_tokens=_tokens(sums, "router_prompt_tokens"),
        output_tokens=_tokens(sums, "router_output_tokens"),
        ttft_seconds=latency(sums.histogram("router_ttft_seconds")),
        itl_seconds=latency(sums.histogram("router_itl_seconds"), are_independent=False),
        tpot_seconds=latency(sums.histogram("router_tpot_seconds")),
        e2e_seconds=latency(sums.histogram("router_e2e_seconds")),
        requests_inside=sums.level("router_requests_inside"),
    )


def object_store(sums: Sums) -> ObjectStore | None:
    """None where no store was read."""
    lookups, hits = sums.counter("store_lookups_total"), sums.counter("store_hits_total")
    clients = sums.level("store_clients")
    if lookups is None and clients is None:
        return None
    used, capacity = sums.level("store_used_bytes"), sums.level("store_capacity_bytes")
    puts = [n for name in ("store_puts_total", "store_batch_puts_total") if (n := sums.counter(name)) is not None]
    return ObjectStore(
        lookups=lookups,
        hits=hits,
        object_hit_ratio=hits / lookups if hits is not None and lookups else None,
        puts=sum(puts) if puts else None,
        failed_allocations=sums.counter("store_failed_allocations_total"),
        evicted_objects=sums.counter("store_evicted_objects_total"),
        used_ratio=used.last / capacity.last if used and capacity and capacity.last else None,
        clients=clients,
    )


def _by_router(increments: Iterable[Increment]) -> dict[str, dict[SignalKey, float]]:
    """The rises of counters by kind of router: each kind has its own arithmetic."""
    rises: dict[str, dict[SignalKey, float]] = {}
    for increment in increments:
        if increment.key.source in ROUTERS:
            kind = rises.setdefault(increment.key.source, defaultdict(float))
            for place, rise in increment.counters.items():
                kind[place] += rise
    return rises


def _reasons(ends: Iterable[Outcomes]) -> dict[str, float]:
    reasons: dict[str, float] = defaultdict(float)
    for end in ends:
        for why, count in end.failed.items():
            reasons[why] += count
    return dict(sorted(reasons.items()))


def _sum_of(sums: Sums, signal: str) -> float | None:
    found = sums.by_label(signal)
    return sum(found.values()) if found else None


def _tokens(sums: Sums, signal: str) -> float | None:
    """Some routers count tokens, some observe them by the request."""
    counted, observed = _sum_of(sums, f"{signal}_total"), sums.histogram(signal)
    known = [tokens for tokens in (counted, observed.total if observed else None) if tokens is not None]
    return sum(known) if known else None
