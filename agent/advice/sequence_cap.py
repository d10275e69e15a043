"""Rule: `max_num_seqs`, the largest batch. Higher, where requests wait although the KV cache has room; lower, where the
batch itself makes every step too long.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

from agent.advice.capacity import Objective, Prediction, predict
from agent.advice.engine_facts import EngineFacts, engine_facts
from agent.advice.pressure import Pressure, asked_for, pressure
from agent.advice.scene import LOAD_SECONDS, GroupView, Scene, alternative, burn_rates, objectives_of, untold
from agent.model import Evidence, Recommendation, SloStatus, TargetStatus

QUEUED_RATIO = 0.8  # of the readings
AT_CAP_RATIO = 0.8  # of those with a queue: a batch that other things bound goes up and down
ROOM_RATIO = 0.8  # of the KV cache in use at most: more sequences need room of their own
LEAST_GAIN = 1.25  # times the cap: less is not worth a restart
LEAST_SHORTER = 0.9  # of the TTFT p95 before
LEAST_SEEN_CAP = 8.0  # a smaller batch that stands still may be as many prompts as fit into a step
VERIFY_SECONDS = 900.0
CONFIDENCE, UNSEEN_CONFIDENCE = 0.8, 0.6  # the cap as said, or as seen: a batch that stands still under a queue


def sequence_cap(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model and role. None where nothing waits and no gap breaks, where the KV cache is what is short,
    and where the model says that no other cap keeps the promises.
    """
    for (model, role), group in scene.groups().items():
        if role == "prefill":
            continue
        increments = scene.increments(group, LOAD_SECONDS)
        felt = pressure(increments)
        if felt is None:
            continue
        facts = engine_facts([scene.plan.targets.get(status.name) for status in group], increments)
        advice = _higher(scene, model, role, group, felt, facts) or _lower(scene, model, role, group, felt, facts)
        if advice is not None:
            yield advice


def _higher(
    scene: Scene, model: str, role: str, group: Sequence[TargetStatus], felt: Pressure, facts: EngineFacts
) -> Recommendation | None:
    cap = facts.max_sequences or felt.most_running
    least = LEAST_SEEN_CAP if facts.max_sequences is None else 1.0
    is_at_cap = felt.most_running >= cap >= least and felt.at_most_ratio >= AT_CAP_RATIO
    if felt.queued_ratio < QUEUED_RATIO or not is_at_cap or felt.preemptions != 0 or felt.most_kv_ratio > ROOM_RATIO:
        return None
    fits = cap * ROOM_RATIO / felt.most_kv_ratio if felt.most_kv_ratio > 0 else 8 * cap
    caps = [int(times * cap) for times in (2, 4, 8) if times * cap <= fits] or [int(fits)]
    if caps[0] < LEAST_GAIN * cap:
        return None
    view, objectives = scene.view(group), objectives_of(scene.promises(group))
    tried = _tried(view, felt, objectives, [int(cap), *caps])
    worth = [c for c in caps if _is_worth_it(tried[int(cap)], tried[c])]
    if not worth:
        return None  # what waits then waits as long, or the larger batch breaks a promise: a matter of more replicas
    best = next((c for c in worth if (said := tried[c]) is not None and said.meets_slo), worth[0])
    return _recommend(scene, model, role, group, felt, facts, int(cap), best, tried, "max_num_seqs_low")


def _is_worth_it(before: Prediction | None, said: Prediction | None) -> bool:
    """Whether the model knows nothing, or says that first tokens come earlier and no promise surely breaks."""
    if said is None:
        return True
    if said.meets_slo is False or before is None:
        return False
    then, now = said.ttft_p95_seconds, before.ttft_p95_seconds
    if then is None or then.value is None:
        return False
    return now is None or now.value is None or then.value < LEAST_SHORTER * now.value


def _lower(
    scene: Scene, model: str, role: str, group: Sequence[TargetStatus], felt: Pressure, facts: EngineFacts
) -> Recommendation | None:
    promises = scene.promises(group)
    missed = [s for s in promises if s.slo.sli in ("itl", "tpot") and scene.misses(group, s)]
    view = scene.view(group) if missed else None
    if view is None or view.traffic.felt_running is None:
        return None
    batch = view.traffic.felt_running
    context = view.load.input_tokens + view.load.output_tokens / 2
    step = view.engine.steps.seconds(0.0, batch, batch * context)
    if not any(step > (status.slo.threshold_seconds or 0.0) for status in missed):
        return None  # not the batch: others' prefill, or something that the model does not show
    cap = view.engine.limits.max_sequences
    caps = [c for c in (int(batch * part) for part in (0.75, 0.5, 0.25, 0.125)) if c >= 1]
    tried = _tried(view, felt, objectives_of(promises), [cap, *caps])
    good = [c for c in caps if (said := tried[c]) is not None and said.meets_slo]
    if not good:
        return None
    return _recommend(scene, model, role, group, felt, facts, cap, good[0], tried, "max_num_seqs_high", missed[0])


def _tried(
    view: GroupView | None, felt: Pressure, objectives: Sequence[Objective], caps: Sequence[int]
) -> dict[int, Prediction | None]:
    """What each cap would feel like under the requests of now; None without a model."""
    if view is None:
        return dict.fromkeys(caps)
    load, engine = asked_for(view.load, felt), view.engine
    return {
        cap: predict(replace(engine, limits=replace(engine.limits, max_sequences=cap)), load, objectives)
        for cap in caps
    }


def _recommend(
    scene: Scene,
    model: str,
    role: str,
    group: Sequence[TargetStatus],
    felt: Pressure,
    facts: EngineFacts,
    current: int,
    best: int,
    tried: dict[int, Prediction | None],
    code: str,
    missed: SloStatus | None = None,
) -> Recommendation:
    price, is_up = scene.dollars_per_hour(group), best > current
    said, before = tried[best], tried[current]
    why = (
        f"requests wait in {100 * felt.queued_ratio:.0f} % of the readings, the batch stands at "
        f"{felt.most_running:.0f}, and the KV cache is {100 * felt.most_kv_ratio:.0f} % full at most"
        if missed is None
        else f"a step with {felt.mean_running:.0f} sequences alone is longer than {missed.slo.name} allows"
    )
    source = "the batch that stands still under a queue" if facts.max_sequences is None else "engine_args"
    return Recommendation(
        id=f"max-num-seqs-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="knob",
        current=float(current),
        proposed=float(best),
        low=float(ceil(LEAST_GAIN * current)) if is_up else float(min(tried)),
        high=float(max(*tried, 2 * current - 1)) if is_up else float(current - 1),
        reason_code=code,
        binding="seqs" if is_up else "itl",
        summary=f"Start {model} ({role}) with --max-num-seqs {best} instead of {current}: {why}.",
        confidence=UNSEEN_CONFIDENCE if facts.max_sequences is None else CONFIDENCE,
        meets_slo=None if said is None else said.meets_slo,
        evidence=(
            Evidence("requests_queued_for_room_ratio", LOAD_SECONDS, felt.queued_ratio),
            Evidence("requests_waiting_per_engine", LOAD_SECONDS, felt.mean_waiting),
            Evidence("requests_running_max", LOAD_SECONDS, felt.most_running),
            Evidence("kv_usage_ratio_max", LOAD_SECONDS, felt.most_kv_ratio),
            Evidence("preemptions", LOAD_SECONDS, felt.preemptions),
            *burn_rates(scene, group),
        ),
        alternatives=tuple(
            untold(f"--max-num-seqs {cap}", price) if one is None else alternative(f"--max-num-seqs {cap}", one, price)
            for cap, one in tried.items()
        ),
        do_nothing={
            "summary": "requests go on waiting beside room that nobody uses" if is_up else "every gap stays too long",
            "meets_slo": None if before is None else before.meets_slo,
        },
        side_effects=(
            (
                "a larger batch makes every step longer: ITL rises for everybody",
                "more sequences need more KV: watch preemptions",
            )
            if is_up
            else ("who does not fit into the batch waits: TTFT rises under load",)
        )
        + (
            f"the cap of now is told by {source}" + (": check it first" if facts.max_sequences is None else ""),
            "the engine is restarted: its cache begins empty",
        ),
        steps=(
            f"restart one replica of {model} ({role}) with --max-num-seqs {best}",
            "compare its TTFT, ITL p99 and preemptions with the others' for a quarter of an hour",
            "then the other replicas, one after the other",
        ),
        rollback=f"restart with --max-num-seqs {current}",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )
