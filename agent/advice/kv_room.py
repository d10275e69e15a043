"""Rule: more room for KV, where the cache is full: memory that the GPU has left, else a KV cache of half the size.

Both are restarts. More memory changes no answer and comes first; an 8-bit cache may: the correctness canary guards it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor
from urllib.parse import urlsplit

from agent.advice.capacity import Prediction, predict
from agent.advice.engine_facts import EngineFacts, engine_facts
from agent.advice.pressure import Pressure, asked_for, pressure
from agent.advice.scene import LOAD_SECONDS, Scene, alternative, burn_rates, objectives_of, untold
from agent.gpu_pods import gpu_pods
from agent.model import Evidence, Recommendation, TargetStatus

FULL_READINGS_RATIO = 0.5
NEARLY_FULL = 0.9  # of the cache at its fullest: preemptions without it have another cause
LEAST_PREEMPTIONS = 5.0
LARGEST_RATIO = 0.95  # of the GPU's memory: the rest is the driver's, and what does not count as the engine's
MARGIN_RATIO = 0.05  # stays free beside it
LEAST_STEP = 0.02
BITS = (16.0, 8.0)
VERIFY_SECONDS = 1_800.0
CONFIDENCE = {"gpu_memory_utilization": 0.8, "kv_cache_dtype": 0.5}
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Way:
    """One way to more room: the cache is `times` as large with it, at least."""

    code: str
    setting: str
    current: float
    proposed: float
    times: float


def kv_room(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model and role. None where the cache has room, and where neither way is open."""
    for (model, role), group in scene.groups().items():
        increments = scene.increments(group, LOAD_SECONDS)
        felt = pressure(increments)
        if felt is None or not _is_short(felt):
            continue
        facts = engine_facts([scene.plan.targets.get(status.name) for status in group], increments)
        free = free_memory_ratio(scene, group)
        ways = list(_ways(facts, free))
        if ways:
            yield _recommend(scene, model, role, group, felt, free, ways)


def _is_short(felt: Pressure) -> bool:
    is_full = felt.full_ratio >= FULL_READINGS_RATIO and felt.queued_ratio >= FULL_READINGS_RATIO
    return is_full or ((felt.preemptions or 0.0) >= LEAST_PREEMPTIONS and felt.most_kv_ratio >= NEARLY_FULL)


def _ways(facts: EngineFacts, free: float | None) -> Iterator[Way]:
    ratio = facts.memory_ratio
    if ratio is not None and free is not None:
        larger = floor(100 * min(LARGEST_RATIO, ratio + free - MARGIN_RATIO) + 1e-6) / 100
        if larger >= ratio + LEAST_STEP:
            # All that the engine holds taken for KV: its bytes a token are less than that, so room grows by more.
            flag = f"--gpu-memory-utilization {larger:g}"
            yield Way("gpu_memory_utilization", flag, ratio, larger, larger / ratio)
    if facts.kv_dtype is None or not facts.kv_dtype.startswith(("fp8", "int8", "nvfp4")):
        yield Way("kv_cache_dtype", "--kv-cache-dtype fp8", *BITS, BITS[0] / BITS[1])


def free_memory_ratio(scene: Scene, group: Sequence[TargetStatus]) -> float | None:
    """The part of its memory that the fullest GPU of these engines has free; None where that is not known.

    A GPU is theirs where a process of their pods is on it, or all engines are on this node, whose GPUs we read.
    """
    names = {status.name for status in group}
    every = {gpu.gpu: {pod.target for pod in gpu.pods} for gpu in gpu_pods(scene.windows, scene.plan.targets)}
    theirs = {gpu for gpu, targets in every.items() if targets & names}
    if names - {target for targets in every.values() for target in targets}:
        urls = [facts.url if (facts := scene.plan.targets.get(name)) else "" for name in names]
        if not all(urlsplit(url).hostname in LOOPBACK for url in urls):
            return None
        theirs = set(every)
    found = [_free(scene.windows.on_page(gpu)[0].gauges) for gpu in theirs if scene.windows.on_page(gpu)]
    known = [ratio for ratio in found if ratio is not None]
    return min(known) if known and len(known) == len(theirs) else None


def _free(gauges: Mapping[tuple[str, str], float]) -> float | None:
    used, total = gauges.get(("gpu_memory_used_bytes", "")), gauges.get(("gpu_memory_total_bytes", ""))
    return None if used is None or not total else max(0.0, 1 - used / total)


def _recommend(
    scene: Scene,
    model: str,
    role: str,
    group: Sequence[TargetStatus],
    felt: Pressure,
    free: float | None,
    ways: Sequence[Way],
) -> Recommendation:
    tried = _tried(scene, group, felt, ways)
    best = next((way for way in ways if (said := tried.get(way.code)) is not None and said.meets_slo), ways[0])
    said, before, price = tried.get(best.code), tried.get(""), scene.dollars_per_hour(group)
    told = {"as it is": before, **{way.setting: tried.get(way.code) for way in ways}}
    is_dtype = best.code == "kv_cache_dtype"
    return Recommendation(
        id=f"kv-room-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="knob",
        current=best.current,
        proposed=best.proposed,
        low=best.current + LEAST_STEP if not is_dtype else best.proposed,
        high=LARGEST_RATIO if not is_dtype else best.proposed,
        reason_code=best.code,
        binding="kv",
        summary=(
            f"Start {model} ({role}) with {best.setting}: its KV cache is full in {100 * felt.full_ratio:.0f} % of the "
            f"readings, with {_count(felt.preemptions)} preemptions; "
            + (
                "half as many bytes a token make room for twice the tokens. Guard it with the correctness canary."
                if is_dtype
                else f"{100 * (free or 0.0):.0f} % of the GPU's memory is free, and the cache grows by at least "
                f"{100 * (best.times - 1):.0f} %."
            )
        ),
        confidence=CONFIDENCE[best.code],
        meets_slo=None if said is None else said.meets_slo,
        evidence=(
            Evidence("kv_cache_full_ratio", LOAD_SECONDS, felt.full_ratio),
            Evidence("kv_usage_ratio_max", LOAD_SECONDS, felt.most_kv_ratio),
            Evidence("preemptions", LOAD_SECONDS, felt.preemptions),
            Evidence("requests_queued_for_room_ratio", LOAD_SECONDS, felt.queued_ratio),
            Evidence("gpu_memory_free_ratio", 0.0, free),
            *burn_rates(scene, group),
        ),
        alternatives=tuple(
            untold(setting, price) if one is None else alternative(setting, one, price) for setting, one in told.items()
        ),
        do_nothing={
            "summary": "requests wait for room, and preempted ones are computed again",
            "meets_slo": None if before is None else before.meets_slo,
        },
        side_effects=(
            (
                "answers may change: an 8-bit cache is less exact, more so for long prompts",
                "not every attention backend reads an 8-bit cache as fast: compare ITL",
            )
            if is_dtype
            else (
                "less memory is left for peaks: an engine that runs out of it dies at once",
                "other processes on the GPU have less",
            )
        )
        + ("the engine is restarted: its cache begins empty",),
        steps=(
            *(("have a canary of kind correctness run before and after",) if is_dtype else ()),
            f"restart one replica of {model} ({role}) with {best.setting}",
            "compare its preemptions, queue and ITL with the others' for half an hour"
            + (", and its answers by the canary" if is_dtype else ""),
            "then the other replicas, one after the other",
        ),
        rollback="restart with the setting of before"
        + (f" (--gpu-memory-utilization {best.current:g})" if not is_dtype else " (--kv-cache-dtype auto)"),
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )


def _tried(scene: Scene, group: Sequence[TargetStatus], felt: Pressure, ways: Sequence[Way]) -> dict[str, Prediction]:
    """By way, and "" as it is; empty without a model. A smaller cache is not taken to be read faster."""
    view, objectives = scene.view(group), objectives_of(scene.promises(group))
    if view is None or view.engine.limits.kv_tokens is None:
        return {}
    load, engine, tokens = asked_for(view.load, felt), view.engine, view.engine.limits.kv_tokens
    sizes = {"": 1.0, **{way.code: way.times for way in ways}}
    return {
        code: predict(replace(engine, limits=replace(engine.limits, kv_tokens=times * tokens)), load, objectives)
        for code, times in sizes.items()
    }


def _count(preemptions: float | None) -> str:
    return "an unknown number of" if preemptions is None else f"{preemptions:.0f}"
