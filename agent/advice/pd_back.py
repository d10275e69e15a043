"""Rule: the way back from split pools to engines that do both halves, where as many of those keep every promise, or
fewer: a small service loses an engine to rounding, and a slow link makes the tail that the split was to cure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agent.advice.capacity import Objective
from agent.advice.pd_pools import Pools, pools_of
from agent.advice.pd_transfer import LARGER_BLOCK_TOKENS, USUAL_BLOCK_TOKENS
from agent.advice.pd_words import by_name, engine_dollars, ms, pool_evidence, stays_missed
from agent.advice.rehearsal import Load
from agent.advice.scene import Scene, objectives_of
from agent.advice.topologies import Outlook, aggregated_outlook, split_outlooks
from agent.advice.topology import LARGEST_GROUP
from agent.model import Evidence, Recommendation, SloStatus

CONFIDENCE = 0.6  # how engines do both halves is put together from each half: try it beside what runs
VERIFY_SECONDS = 1_800.0


def pd_back(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model that prefills here and decodes there. None where nothing is promised, and where the pools
    are not known (see `pools_of`).
    """
    for pools in pools_of(scene):
        promises = scene.promises(pools.members)
        advice = aggregated_again(scene, pools, pools.missed(scene), promises) if promises else None
        if advice is not None:
            yield advice


def aggregated_again(
    scene: Scene, pools: Pools, missed: Sequence[SloStatus], promises: Sequence[SloStatus]
) -> Recommendation | None:
    """Advice in two cases. A promise is surely missed, the model shows it, and neither another split of these engines
    nor larger KV blocks keep every promise: then at the rate of now. Or nothing is missed: then at the largest rate of
    the last hour, only where fewer engines do, and no split of as few does.
    """
    objectives, rate = objectives_of(promises), pools.load.rate if missed else pools.peak_rate
    if rate is None or pools.engines > LARGEST_GROUP:
        return None
    load = replace(pools.load, rate=rate)
    fewest = _fewest(scene, pools, load, objectives)
    if fewest is None or (not missed and fewest.decode >= pools.engines):
        return None
    total = pools.engines if missed else fewest.decode
    splits = split_outlooks(pools.engine, load, _splits(total), pools.transfer, objectives)
    here = [(len(pools.prefill), len(pools.decode))]
    now = split_outlooks(pools.engine, load, here, pools.transfer, objectives)[0]
    if any(one.meets_slo for one in splits) or (missed and now.strain <= 1.0):
        return None
    if missed and _larger_blocks_keep(pools, load, objectives):
        return None
    nearest = min(splits, key=lambda one: one.overshoot, default=now)
    others = [] if nearest == now else [nearest]
    return _recommend(scene, pools, promises, missed, [now, fewest, *others])


def _larger_blocks_keep(pools: Pools, load: Load, objectives: Sequence[Objective]) -> bool:
    """Whether a transfer setting does it: posts fall with the number of pieces (agent/advice/pd_transfer.py)."""
    post = pools.transfer.post_seconds * USUAL_BLOCK_TOKENS / LARGER_BLOCK_TOKENS
    shorter = replace(pools.transfer, post_seconds=post)
    here = [(len(pools.prefill), len(pools.decode))]
    return split_outlooks(pools.engine, load, here, shorter, objectives)[0].meets_slo


def _splits(total: int) -> list[tuple[int, int]]:
    return [(prefill, total - prefill) for prefill in range(1, total)]


def _fewest(scene: Scene, pools: Pools, load: Load, objectives: Sequence[Objective]) -> Outlook | None:
    """The fewest aggregated engines, no more than there are, that keep every promise at the pessimistic end."""
    found = None
    for replicas in range(pools.engines, max(1, scene.plan.advice.min_replicas) - 1, -1):
        # a cache for each: with more of them than now, a router that does not look finds less
        hits = load.hit_ratio * min(1.0, len(pools.prefill) / replicas)
        one = aggregated_outlook(pools.engine, replace(load, hit_ratio=hits), replicas, objectives)
        if not one.meets_slo:
            break
        found = one
    return found


def _recommend(
    scene: Scene,
    pools: Pools,
    promises: Sequence[SloStatus],
    missed: Sequence[SloStatus],
    found: Sequence[Outlook],
) -> Recommendation:
    now, then = found[0], found[1]
    saved = pools.engines - then.decode
    few = "one" if then.decode == 1 else str(then.decode)
    engines = f"{few} engine{'' if then.decode == 1 else 's'}"
    freed = "one becomes" if saved == 1 else f"{saved} become"
    why = (
        f"{missed[0].slo.name} is missed, and no split of these engines keeps every promise"
        if missed
        else f"no split of as few keeps every promise, and {freed} free"
    )
    return Recommendation(
        id=f"pd-back-{pools.model}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=pools.model,
        role="decode",
        action="topology",
        current=float(pools.engines),
        proposed=float(then.decode),
        low=float(then.decode),
        high=float(pools.engines),
        reason_code="aggregate_again",
        binding=missed[0].slo.sli if missed else "cost",
        summary=(
            f"Let {engines} of {pools.model} do both prefill and decode, instead of {now.name}: {why}. The "
            f"TTFT tail gets rid of the transfer and a queue: p95 goes from {ms(now.ttft_p95_seconds)} to "
            f"{ms(then.ttft_p95_seconds)}. The ITL tail holds others' prefill again: p99 goes from "
            f"{ms(now.itl_p99_seconds)} to {ms(then.itl_p99_seconds)}. Every promise is kept at the pessimistic end."
        ),
        confidence=CONFIDENCE,
        meets_slo=True,
        evidence=(
            *pool_evidence(scene, pools, *promises),
            Evidence("requests_per_second_of_the_busiest_minutes", 3_600.0, pools.peak_rate),
        ),
        alternatives=by_name(found, engine_dollars(scene, pools)),
        do_nothing={
            "itl_p99_seconds": now.itl_p99_seconds,
            "summary": (
                stays_missed(missed[0], now)
                if missed
                else f"{pools.engines} engines where {few} would do go on costing"
            ),
            "meets_slo": now.meets_slo,
        },
        side_effects=(
            "the longest gaps between tokens are prompts of others, and grow with them: a longer prompt shows in ITL",
            "every engine has its own prefix cache: without prefix-aware routing less is found there",
            "both halves are sized together again: one cannot grow without the other",
        ),
        steps=(
            f"bring up one engine that does both, with 1/{then.decode} of the traffic",
            "when its TTFT and ITL are as predicted, turn the decode engines over one by one, then the prefill engines",
            *((f"stop what is left over: {saved} of {pools.engines}",) if saved else ()),
        ),
        rollback=f"split them again: {now.name}; keep the proxy until this is judged",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )
