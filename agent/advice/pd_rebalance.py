"""Rule: another share of the same engines to prefill and to decode, where one pool binds and the other has room.

A request needs both pools, so the scarcer one decides. At equal GPUs nothing is cheaper than moving an engine.
"""

from collections.abc import Iterator, Sequence

from agent.advice.pd_pools import Pools, pools_of
from agent.advice.pd_words import by_name, engine_dollars, ms, pool_evidence, stays_missed
from agent.advice.scene import Scene, objectives_of
from agent.advice.topologies import Outlook, aggregated_outlook, split_outlooks
from agent.advice.topology import LARGEST_GROUP
from agent.model import Recommendation, SloStatus

LEAST_ENGINES = 3  # of two, one each, none can be moved
LEAST_GAIN_RATIO = 0.85  # facts/recommend.md 5c: a move must take 15 % off what is scarcest
CONFIDENCE = 0.6
VERIFY_SECONDS = 900.0


def pd_rebalance(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model that prefills here and decodes there. None where no promise is surely missed, and where the
    pools are not known (see `pools_of`).
    """
    for pools in pools_of(scene):
        missed = pools.missed(scene)
        advice = rebalanced(scene, pools, missed, scene.promises(pools.members)) if missed else None
        if advice is not None:
            yield advice


def rebalanced(
    scene: Scene, pools: Pools, missed: Sequence[SloStatus], all_promises: Sequence[SloStatus]
) -> Recommendation | None:
    """The fewest moves after which the pessimistic end keeps every promise; else the nearest split, or, where that is
    the present one, that none keeps them, and whether one engine more would.

    None where the model does not show the trouble that is seen, and where the same engines aggregated would do: that is
    another rule's. Two engines, one each, cannot be moved.
    """
    promises = [*missed, *(status for status in all_promises if status not in missed)]
    objectives, here = objectives_of(promises), len(pools.prefill)
    if not LEAST_ENGINES <= pools.engines <= LARGEST_GROUP:
        return None
    splits = [(prefill, pools.engines - prefill) for prefill in range(1, pools.engines)]
    found = split_outlooks(pools.engine, pools.load, splits, pools.transfer, objectives)
    now = next(one for one in found if one.prefill == here)
    if now.strain <= 1.0:
        return None
    good = [one for one in found if one.meets_slo]
    if good:
        best = min(good, key=lambda one: (abs(one.prefill - here), one.pessimistic_strain))
        return _move(scene, pools, promises, found, now, best)
    together = aggregated_outlook(pools.engine, pools.load, pools.engines, objectives)
    if together.meets_slo:
        return None
    more = [(here + 1, pools.engines - here), (here, pools.engines - here + 1)]
    found += [together, *split_outlooks(pools.engine, pools.load, more, pools.transfer, objectives)]
    best = min(found[: len(splits)], key=lambda one: one.overshoot)
    if best.overshoot <= LEAST_GAIN_RATIO * now.overshoot:
        return _move(scene, pools, promises, found, now, best)
    return _none(scene, pools, promises, found, now)


def _move(
    scene: Scene, pools: Pools, promises: Sequence[SloStatus], found: Sequence[Outlook], now: Outlook, best: Outlook
) -> Recommendation:
    status = promises[0]
    giver, taker = ("prefill", "decode") if best.prefill < now.prefill else ("decode", "prefill")
    moved = abs(best.prefill - now.prefill)
    good = [one.prefill for one in found if one.meets_slo]
    kept = (
        f"{status.slo.name} is then kept, and every other promise"
        if best.meets_slo
        else "nothing tried keeps every promise; this is nearest"
    )
    return Recommendation(
        id=f"pd-rebalance-{pools.model}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=pools.model,
        role="decode",
        action="rebalance",
        current=float(now.prefill),
        proposed=float(best.prefill),
        low=float(min(good, default=best.prefill)),
        high=float(max(good, default=best.prefill)),
        reason_code="rebalance_pools",
        binding=status.slo.sli,
        summary=(
            f"Move {moved} of the {pools.engines} engines of {pools.model} from {giver} to {taker}: {best.name} "
            f"instead of {now.name}. {taker.capitalize()} is what breaks {status.slo.name}, and {giver} has room. "
            f"TTFT p95 goes from {ms(now.ttft_p95_seconds)} to {ms(best.ttft_p95_seconds)}, ITL p99 from "
            f"{ms(now.itl_p99_seconds)} to {ms(best.itl_p99_seconds)}; {kept}."
        ),
        confidence=CONFIDENCE,
        meets_slo=best.meets_slo,
        evidence=pool_evidence(scene, pools, *promises),
        alternatives=by_name(found, engine_dollars(scene, pools)),
        do_nothing={
            "itl_p99_seconds": now.itl_p99_seconds,
            "summary": stays_missed(status, now),
            "meets_slo": False,
        },
        side_effects=(
            f"{giver} keeps less room for a peak: a load that changes its lengths can turn the balance again",
            "the engine that moves is restarted: its cache begins empty",
            "a router or proxy that lists the engines of each pool must be told",
        ),
        steps=(
            f"with a free GPU: bring up the {taker} engine first, and wait until it is ready",
            f"then drain one {giver} engine: without a free GPU this comes first, in the quietest hour",
            f"start it as {taker}; both halves are one change: do not leave it half done",
            *((f"do the same {moved - 1} more times",) if moved > 1 else ()),
        ),
        rollback=f"move it back: {now.name}",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )


def _none(
    scene: Scene, pools: Pools, promises: Sequence[SloStatus], found: Sequence[Outlook], now: Outlook
) -> Recommendation:
    status = promises[0]
    helps = [one for one in found if one.prefill + one.decode > pools.engines and one.meets_slo]
    way = f"one engine more does: {helps[0].name}" if helps else "neither does one engine more in either pool"
    return Recommendation(
        id=f"pd-rebalance-{pools.model}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=pools.model,
        role="decode",
        action="none",
        current=float(now.prefill),
        proposed=float(now.prefill),
        low=float(now.prefill),
        high=float(now.prefill),
        reason_code="no_split_keeps",
        binding=status.slo.sli,
        summary=(
            f"No split of the {pools.engines} engines of {pools.model} keeps every promise: nothing tried meets it, "
            f"and nearest is the present one, {now.name}; {way}."
        ),
        confidence=CONFIDENCE,
        meets_slo=False,
        evidence=pool_evidence(scene, pools, *promises),
        alternatives=by_name(found, engine_dollars(scene, pools)),
        do_nothing={
            "itl_p99_seconds": now.itl_p99_seconds,
            "summary": stays_missed(status, now),
            "meets_slo": False,
        },
        side_effects=("moving engines between the pools would move the trouble from one to the other",),
        steps=(f"add an engine: {helps[0].name}" if helps else "add engines to both pools, or ask for less",),
        rollback="nothing was changed",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )
