"""Rule: scale, out and in, so that the objectives hold when a new replica could at the earliest serve, and no more."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.advice.advisor import Advisor, GroupMemory, Named, by_group
from agent.advice.capacity_book import Kind, Learned
from agent.advice.carries import Carried, objectives_of
from agent.advice.confidence import confidence_of, confidence_parts, load_ratio
from agent.advice.demand import Mix
from agent.advice.engine_facts import EngineFacts, engine_facts
from agent.advice.forecast import Forecast
from agent.advice.foreseen import Basis
from agent.advice.replicas import Group, Wish, wished
from agent.advice.scene import burns_of
from agent.model import Evidence, Recommendation, ReplicaWish, Slo, SloStatus, TargetStatus
from agent.plan import Plan
from agent.sli.count import concerns
from agent.windows import Windows

LATEST_SECONDS = 120.0
VERIFY_SECONDS = 600.0  # beyond the cold start: queues have to drain, and a short burn window to pass, before it shows
LEAST_LEFT_RATIO = 0.5  # of the error budget: with less, the forecast is read at a higher quantile
SIGNALS = ("ttft", "itl", "tpot", "goodput")


@dataclass(frozen=True, slots=True)
class Scaling:
    """What one group should have, and the advice that follows with what it stands on; None where nothing is to change
    or to be told.
    """

    wish: ReplicaWish
    advice: Recommendation | None
    basis: Basis | None
    is_modelled: bool


def scale(
    plan: Plan,
    advisor: Advisor,
    statuses: Sequence[TargetStatus],
    slos: Sequence[SloStatus],
    windows: Windows,
    now_seconds: float,
) -> Iterator[Scaling]:
    """One answer per model and role with a promise that replicas can keep: none to change where what is there is right
    or no model of a replica can be trusted, and fewer replicas only where all that tells against it was read.
    """
    for name, members in by_group(statuses):
        memory = advisor.groups.get(name)
        promised = [status for status in slos if any(_drives(plan, status.slo, member) for member in members)]
        if memory is None or not promised:
            continue
        rates = memory.demand.rates(3)
        latest = next((rate for rate in reversed(rates) if rate is not None), None)
        group, lead = advisor.group_of(plan, members, windows, now_seconds), advisor.lead_seconds(plan, name)
        if latest is None:  # pages that are read, and no longer tell how many come
            group = replace(group, quality_ratio=0.0)
        serving = [member.name for member in members if member.health == "up"]
        learned = _learned(plan, advisor, members)
        newest = [increment for target in serving for increment in windows.on_page(target)]
        facts = engine_facts([plan.targets.get(member.name) for member in members], newest)
        carried = _carried(learned, facts, memory, serving, promised, windows, now_seconds)
        forecast = memory.forecaster.forecast()
        waiting = memory.demand.waiting(serving)
        bounds = (plan.advice.min_replicas, plan.advice.max_replicas)
        pressed = any(_is_pressed(status) for status in promised)
        wish = wished(
            group, forecast, carried, waiting, memory.steadiness, bounds, lead, now_seconds, is_pressed=pressed
        )
        advice, basis, confidence, mix = None, None, 0.0, memory.demand.mix(now_seconds)
        if forecast is not None and carried is not None and learned is not None and mix is not None:
            parts = _parts(group, wish, learned, forecast, carried, mix)
            confidence = confidence_of(parts)
            if wish.count != group.count:
                counts = sorted({max(1, wish.count - 1), wish.count, wish.count + 1, group.count})
                objectives = objectives_of(status.slo for status in promised)
                basis = Basis(counts, group.lost, waiting, learned, forecast, carried, mix, objectives)
                advice = _recommend(
                    plan, name, members, promised, group, wish, basis, parts, waiting, lead, now_seconds
                )
        told = ReplicaWish(*name, group.count, wish.count, wish.low, wish.high, confidence, wish.reason, latest)
        yield Scaling(told, advice, basis, is_modelled=carried is not None)


def _learned(plan: Plan, advisor: Advisor, members: Sequence[TargetStatus]) -> Learned | None:
    """What the group's engines have shown; replicas on different GPUs have no common answer."""
    types = {(facts.gpu_type or "") for m in members if (facts := plan.targets.get(m.name))}
    return advisor.capacity.learned.get(Kind(members[0].model, members[0].role, *types)) if len(types) == 1 else None


def _carried(
    learned: Learned | None,
    facts: EngineFacts,
    memory: GroupMemory,
    serving: Sequence[str],
    promised: Sequence[SloStatus],
    windows: Windows,
    now_seconds: float,
) -> Carried | None:
    """What one replica of the group carries, held against what was seen of late."""
    if learned is None:
        return None
    objectives = objectives_of(status.slo for status in promised)
    rates = [rate for rate in memory.demand.rates(6) if rate is not None]
    if rates and serving:
        waiting = memory.demand.waiting(serving)
        increments = windows.between(now_seconds - LATEST_SECONDS, now_seconds, serving)
        rate, queues = sum(rates) / len(rates), waiting > 2 * len(serving)
        memory.carries.learn(increments, objectives, rate, len(serving), queues=queues, now_seconds=now_seconds)
    return memory.carries.ask(learned, memory.demand.mix(now_seconds), objectives, now_seconds, facts)


def _drives(plan: Plan, slo: Slo, member: TargetStatus) -> bool:
    wanted = plan.advice.slo_names
    is_chosen = slo.name in wanted if wanted else slo.sli in SIGNALS
    counts = slo.source == "engine" and slo.sli in SIGNALS
    return counts and is_chosen and concerns(slo, plan.targets.get(member.name), member.model)


def _is_pressed(status: SloStatus) -> bool:
    """It burns faster than it may right now, or less than half of the budget is left of what was watched."""
    left = status.budget.observed_remaining_ratio
    rates = [burn.short_rate for burn in status.burns if burn.short_rate is not None]
    return (left is not None and left < LEAST_LEFT_RATIO) or max(rates[:1], default=0.0) > 1.0


def _recommend(
    plan: Plan,
    name: Named,
    members: Sequence[TargetStatus],
    promised: Sequence[SloStatus],
    group: Group,
    wish: Wish,
    basis: Basis,
    parts: Mapping[str, float],
    waiting: float,
    lead: float,
    now_seconds: float,
) -> Recommendation:
    (model, role), forecast, carried = name, basis.forecast, basis.carried
    grows = wish.count > group.count
    price = _dollars_per_hour(plan, members)
    who, there = f"{model} ({role})", group.count - group.lost
    lost = f"; {group.lost} of the {group.count} are lost and carry nothing" if group.lost else ""
    direction = "out" if grows else "in"
    return Recommendation(
        id=f"scale-{direction}-{model}-{role}-{now_seconds:.0f}",
        at_seconds=now_seconds,
        model=model,
        role=role,
        action="scale",
        current=group.count,
        proposed=wish.count,
        low=wish.low,
        high=wish.high,
        reason_code=f"scale_{direction}" if wish.reason in ("grow", "shrink") else wish.reason,
        binding=carried.binding or "queue",
        summary=(
            f"Scale {who} {direction}, from {group.count} to {replicas(wish.count)}: with 90 % chance at most "
            f"{forecast.q90:.1f} requests/s come within {forecast.horizon_seconds:.0f} s, and one replica carries "
            f"{carried.low:.2f} of them within the objectives{lost}{_asks_for_more(plan, wish)}."
        ),
        confidence=confidence_of(parts),
        meets_slo=basis.keeps(wish.count),
        evidence=(
            Evidence("forecast_arrival_rate_q50_per_second", forecast.horizon_seconds, forecast.q50),
            Evidence("forecast_arrival_rate_q90_per_second", forecast.horizon_seconds, forecast.q90),
            Evidence("forecast_arrival_rate_q97_per_second", forecast.horizon_seconds, forecast.q97),
            Evidence("carried_per_replica_low_per_second", 0.0, carried.low),
            Evidence("carried_per_replica_per_second", 0.0, carried.value),
            Evidence("carried_correction_ratio", 0.0, carried.correction),
            *_budget(carried),
            Evidence("requests_waiting", 0.0, waiting),
            Evidence("readings_ratio", 300.0, group.quality_ratio),
            Evidence("cold_start_seconds", 0.0, lead),
            Evidence("replicas_pending", 0.0, group.pending),
            Evidence("replicas_lost", 0.0, group.lost),
            Evidence("replicas_needed", forecast.horizon_seconds, wish.needed),
            *(Evidence(f"confidence_{part}_ratio", 0.0, round(value, 3)) for part, value in parts.items()),
            *burns_of(promised),
        ),
        alternatives=tuple(
            {
                "setting": replicas(count),
                "ttft_p95_seconds": None,
                "itl_p99_seconds": None,
                "goodput_ratio": None,
                "dollars_per_hour": None if price is None else price / len(members) * count,
                "meets_slo": basis.keeps(count),
            }
            for count in basis.counts
        ),
        do_nothing={
            "replicas": group.count,
            "meets_slo": basis.keeps(group.count),
            "summary": (
                f"{replicas(there)} {'carries' if there == 1 else 'carry'} {there * carried.low:.1f} requests/s; "
                f"what comes beyond that waits"
                if grows
                else f"{replicas(group.count - wish.count)} more than needed cost money"
            ),
        },
        side_effects=(
            (
                "a new replica begins with an empty prefix cache: the hit ratio falls for a while",
                f"the first new replica serves after about {lead:.0f} s; nothing changes before",
            )
            if grows
            else (
                "what the removed replicas hold in their prefix caches is lost",
                "running requests must be drained: allow a termination grace period as long as the longest answer",
            )
        ),
        steps=_steps(members, group, wish, who, grows=grows),
        rollback=f"set the replica count of {who} back to {group.count}",
        verify_at_seconds=now_seconds + (lead if grows else 0.0) + VERIFY_SECONDS,
    )


def _budget(carried: Carried) -> Iterator[Evidence]:
    """The token budget that the model took, with its source behind the name."""
    if carried.budget is not None:
        yield Evidence(f"max_num_batched_tokens:{carried.budget.source}", 0.0, float(carried.budget.tokens))


def replicas(count: int) -> str:
    """1 -> "1 replica", 2 -> "2 replicas"."""
    return f"{count} replica{'' if count == 1 else 's'}"


def _asks_for_more(plan: Plan, wish: Wish) -> str:
    """That the load asks for more than is advised, and why."""
    if wish.needed is None or wish.needed <= wish.count:
        return ""
    is_bound = wish.count >= plan.advice.max_replicas
    why = (
        f"advice.max_replicas is {plan.advice.max_replicas}"
        if is_bound
        else "at most double, or four more, come at once"
    )
    return f"; the load asks for {wish.needed}, but {why}"


def _steps(members: Sequence[TargetStatus], group: Group, wish: Wish, who: str, *, grows: bool) -> tuple[str, ...]:
    silent = [member.name for member in members if member.health in ("down", "stuck")]
    first = (f"look at {', '.join(silent)}: what does not serve has to be made up for",) if silent else ()
    if grows:
        return (
            *first,
            f"raise the replica count of {who} from {group.count} to {wish.count}",
            "wait until they are ready",
        )
    return (*first, f"lower the replica count of {who} from {group.count} to {wish.count}", "drain before they go")


def _parts(
    group: Group, wish: Wish, learned: Learned, forecast: Forecast, carried: Carried, mix: Mix
) -> Mapping[str, float]:
    """What makes the confidence; only fewer replicas ask each for more than it has now."""
    there, asked = wish.count - group.lost, 0.0
    if wish.count < group.count and there > 0 and learned.steps is not None:
        asked = load_ratio(learned.steps, mix, forecast.q50 / there / carried.correction)
    return confidence_parts(group.quality_ratio, carried, learned.shown, asked)


def _dollars_per_hour(plan: Plan, members: Sequence[TargetStatus]) -> float | None:
    rates = [facts.dollars_per_second for m in members if (facts := plan.targets.get(m.name))]
    known = [rate for rate in rates if rate is not None]
    return sum(known) * 3600 if known and len(known) == len(members) else None
