"""Rule: scale out, when requests queue without end while a TTFT objective burns.

Each replica's rate is read off while its queue stands, when it gives all it has: that is proven, not modelled. What
happened before the queue stood says nothing about either rate and is left out.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agent.advice.scene import burns_of
from agent.model import Evidence, Recommendation, SloStatus, TargetStatus
from agent.plan import Plan
from agent.signals.sums import add_up
from agent.sli.count import concerns
from agent.windows import EngineKey, Increment, Windows
from probes.systems import ENGINES

WINDOW_SECONDS = 300.0
QUEUE_SHARE = 0.8  # of the readings must show waiting requests (facts: saturation shows in 80 % of scrapes)
LEAST_COVERED_RATIO = 0.2  # of the window must have been seen: what stood for seconds is not sustained
SETTLED_SHARE = 0.8  # of the readings of the longest read replica
LEAST_SERVED = 20.0  # first tokens while the queue stood: a rate read off fewer is no proven one
TARGET_UTILISATION = 0.8  # of the proven rate: above it, queueing delay grows without bound
DRAIN_SECONDS = 600.0  # the backlog should be gone after so long
VERIFY_SECONDS = 600.0  # beyond the cold start, until what was advised can be seen
CONFIDENCE_WITHOUT_MODEL = 0.7  # a proven rate, but no model of what TTFT follows from it


@dataclass(frozen=True, slots=True)
class Load:
    """What a group of replicas faces. Rates per second; `waiting` requests now.

    `replicas` are all that should serve, `seen` those whose pages say so; `served_rate` and `arrival_rate` are those of
    the seen ones, `limit_rate` is what one replica serves while its queue stands, None where none stands.
    `is_settled` is False while some replica has been read for much shorter than the others: it has just come, and what
    it takes over looks like arrivals.
    """

    replicas: int
    seen: int
    served_rate: float
    arrival_rate: float
    limit_rate: float | None
    waiting: float
    queue_share: float
    covered_ratio: float
    is_settled: bool


@dataclass(frozen=True, slots=True)
class _Engine:
    served_rate: float
    growth_rate: float
    waiting: float
    is_queueing: bool
    served: float
    queued_readings: int
    readings: int
    seconds: float


def scale_out(
    plan: Plan, statuses: Sequence[TargetStatus], slos: Sequence[SloStatus], windows: Windows, now_seconds: float
) -> Iterator[Recommendation]:
    """At most one recommendation per model and role. None without a burning TTFT objective and a standing queue, where
    the queue drains by itself, where the pages do not tell enough, where nothing is served (more of that serves
    nothing), and at the most replicas.
    """
    engines = [s for s in statuses if s.source in ENGINES]
    for model, role in sorted({(s.model, s.role) for s in engines if s.health == "up"}):
        group = [s for s in engines if (s.model, s.role) == (model, role)]
        burning = [slo for slo in slos if any(_drives(plan, slo, status) for status in group)]
        if not burning:
            continue
        load = measured_load(group, windows, now_seconds)
        if load is None or load.covered_ratio < LEAST_COVERED_RATIO or not load.is_settled:
            continue
        if load.queue_share < QUEUE_SHARE or not load.limit_rate or _drains(load):
            continue
        advice = _recommend(plan, model, role, burning[0], load, group, now_seconds)
        if advice.proposed > advice.current:
            yield advice


def measured_load(group: Sequence[TargetStatus], windows: Windows, now_seconds: float) -> Load | None:
    """The load of these replicas over the last minutes; None when a page that answers does not say."""
    start, up = now_seconds - WINDOW_SECONDS, [status.name for status in group if status.health == "up"]
    engines: dict[EngineKey, list[Increment]] = {}
    for increment in windows.between(start, now_seconds, up):
        if increment.key.source in ENGINES:
            engines.setdefault(increment.key, []).append(increment)
    measured = [_measured(increments) for increments in engines.values()]
    known = [engine for engine in measured if engine is not None]
    if not known or len(known) < len(measured) or {key.target for key in engines} != set(up):
        return None
    limits = _limits(zip((key.target for key in engines), known, strict=True))
    served = sum(engine.served_rate for engine in known)
    return Load(
        len(group),
        len(up),
        served,
        max(0.0, served + sum(engine.growth_rate for engine in known)),
        sum(limits) / len(limits) if limits else None,
        sum(engine.waiting for engine in known),
        sum(engine.queued_readings for engine in known) / sum(engine.readings for engine in known),
        min(1.0, min(engine.seconds for engine in known) / WINDOW_SECONDS),
        min(engine.readings for engine in known) >= SETTLED_SHARE * max(engine.readings for engine in known),
    )


def _limits(engines: Iterable[tuple[str, _Engine]]) -> list[float]:
    """What each replica serves at its limit: all its data-parallel engines together, while one of them queues."""
    replicas: dict[str, list[_Engine]] = {}
    for target, engine in engines:
        replicas.setdefault(target, []).append(engine)
    at_limit = [parts for parts in replicas.values() if any(engine.is_queueing for engine in parts)]
    if sum(engine.served for parts in at_limit for engine in parts) < LEAST_SERVED:
        return []
    return [sum(engine.served_rate for engine in parts) for parts in at_limit]


def _drains(load: Load) -> bool:
    """The queue is gone soon with the replicas there are."""
    shrinks_by = load.served_rate - load.arrival_rate
    return load.waiting <= 0 or (shrinks_by > 0 and load.waiting / shrinks_by <= DRAIN_SECONDS)


def _measured(increments: Sequence[Increment]) -> _Engine | None:
    """One engine's part, over the time its queue has stood (or all of it, where none stands); None where a reading
    lacks the queue, or no first tokens were counted over any time.
    """
    waiting = [i.gauges.get(("requests_waiting", "")) for i in increments]
    known = [value for value in waiting if value is not None]
    if len(known) < len(waiting):
        return None
    since = len(known) - next((back for back, value in enumerate(reversed(known)) if value <= 0), len(known))
    is_queueing = since < len(known) - 1
    part, queue = (increments[since:], known[since:]) if is_queueing else (increments, known)
    first_tokens, seconds = add_up(part).histogram("ttft_seconds"), sum(_span(i) for i in part)
    apart = part[-1].to_seconds - part[0].to_seconds
    if first_tokens is None or seconds <= 0 or apart <= 0:
        return None
    growth = (queue[-1] - queue[0]) / apart
    queued = sum(value > 0 for value in known)
    served = first_tokens.count
    return _Engine(served / seconds, growth, known[-1], is_queueing, served, queued, len(known), seconds)


def _span(increment: Increment) -> float:
    return increment.to_seconds - increment.from_seconds


def _drives(plan: Plan, status: SloStatus, target: TargetStatus) -> bool:
    wanted = plan.advice.slo_names
    is_chosen = status.slo.name in wanted if wanted else status.slo.sli == "ttft"
    if not is_chosen or not any(burn.is_burning and burn.pair.severity == "page" for burn in status.burns):
        return False
    return concerns(status.slo, plan.targets.get(target.name), target.model)


def _recommend(
    plan: Plan, model: str, role: str, status: SloStatus, load: Load, group: Sequence[TargetStatus], now_seconds: float
) -> Recommendation:
    per_replica = load.limit_rate or 0.0
    need = load.arrival_rate / per_replica
    least = max(load.replicas + 1, math.ceil(need))
    best = max(least, math.ceil(need / TARGET_UTILISATION))
    most = max(best, math.ceil((need + load.waiting / DRAIN_SECONDS / per_replica) / TARGET_UTILISATION))
    least, best, most = (min(count, plan.advice.max_replicas) for count in (least, best, most))
    price = _dollars_per_hour(plan, group)
    verify_at = now_seconds + plan.advice.cold_start_seconds + VERIFY_SECONDS
    growth = load.arrival_rate - load.served_rate
    return Recommendation(
        id=f"scale-out-{model or 'model'}-{role}-{now_seconds:.0f}",
        at_seconds=now_seconds,
        model=model,
        role=role,
        action="scale",
        current=load.replicas,
        proposed=best,
        low=least,
        high=most,
        reason_code="sustained_queueing",
        binding="queue",
        summary=(
            f"Scale {model or 'the model'} ({role}) from {load.replicas} to {best} replicas: "
            f"{load.arrival_rate:.1f} requests/s arrive, {_replicas(load)} serve {load.served_rate:.1f}/s "
            f"at their limit, {load.waiting:.0f} wait, and {status.slo.name} burns its budget."
        ),
        confidence=round(CONFIDENCE_WITHOUT_MODEL * load.covered_ratio * load.seen / load.replicas, 2),
        meets_slo=None,
        evidence=(
            Evidence("requests_waiting", WINDOW_SECONDS, load.waiting),
            Evidence("requests_waiting_share_of_readings_ratio", WINDOW_SECONDS, load.queue_share),
            Evidence("arrival_rate_per_second", WINDOW_SECONDS, load.arrival_rate),
            Evidence("served_rate_per_second", WINDOW_SECONDS, load.served_rate),
            Evidence("served_rate_per_replica_per_second", WINDOW_SECONDS, per_replica),
            *burns_of([status]),
        ),
        alternatives=tuple(_alternative(count, load.replicas, price) for count in sorted({least, best, most})),
        do_nothing={
            "requests_waiting_in_600_seconds": load.waiting + max(0.0, growth) * 600,
            "summary": "the queue grows" if growth > 0 else "the queue stays, and with it the time to first token",
            "meets_slo": False,
        },
        side_effects=(
            "a new replica begins with an empty prefix cache: the hit ratio falls for a while",
            f"the first new replica serves after about {plan.advice.cold_start_seconds:.0f} s; nothing changes before",
        ),
        steps=(
            *_repair_steps(group),
            f"raise the replica count of {model or 'the model'} ({role}) from {load.replicas} to {best}",
            "wait until the new replicas are ready and the router sends them requests",
            "watch requests_waiting fall to 0; TTFT follows it",
        ),
        rollback=f"set the replica count back to {load.replicas}; running requests on the removed replicas are drained",
        verify_at_seconds=verify_at,
    )


def _repair_steps(group: Sequence[TargetStatus]) -> Iterator[str]:
    """Replicas that are there but do not serve come first: bringing them back may be all that is needed."""
    silent = [status.name for status in group if status.health != "up"]
    if silent:
        yield f"first bring back {', '.join(silent)}: then see whether the queue still grows"


def _replicas(load: Load) -> str:
    seen = f"{load.seen} replica{'' if load.seen == 1 else 's'}"
    return seen if load.seen == load.replicas else f"{seen} (of {load.replicas}; the others do not answer)"


def _alternative(count: int, current: int, price: float | None) -> dict[str, object]:
    """What is not modelled yet is null: only the cost is known."""
    return {
        "setting": f"{count} replicas",
        "ttft_p95_seconds": None,
        "itl_p99_seconds": None,
        "goodput_ratio": None,
        "dollars_per_hour": None if price is None else price / current * count,
        "meets_slo": None,
    }


def _dollars_per_hour(plan: Plan, group: Sequence[TargetStatus]) -> float | None:
    rates = [facts.dollars_per_second for s in group if (facts := plan.targets.get(s.name))]
    known = [rate for rate in rates if rate is not None]
    return sum(known) * 3600 if known and len(known) == len(group) else None
