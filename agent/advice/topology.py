"""Rule: the same engines put together otherwise. After the cheaper ways: a token budget, then transfer settings."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agent.advice.capacity import Objective, predict
from agent.advice.pd_words import ms, stays_missed
from agent.advice.scene import LOAD_SECONDS, GroupView, Scene, burns_of, objectives_of
from agent.advice.token_budget_rule import budgets
from agent.advice.topologies import Outlook, Transfer, outlooks
from agent.model import Evidence, Recommendation, SloStatus, TargetStatus

LEAST_REPLICAS = 3  # of fewer, one prefill engine is a third or more of all, and rounding decides
LARGEST_GROUP = 12  # beyond it every split is rehearsed in steps
KV_BYTES_PER_TOKEN = 131_072  # of an 8-billion-parameter shape (facts/h200.md); the pages do not tell it
WIRE_BYTES_PER_SECOND = 25e9  # a P/D link over the network: a usual assumption, not measured
POST_SECONDS_PER_TOKEN = 10.1e-3 / 8192  # facts/h200.md: 10.1 ms for an 8k prompt, with blocks of 128 tokens
CONFIDENCE = 0.4  # the link is not measured: try it beside what runs before moving to it
VERIFY_SECONDS = 1_800.0


def topology(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model of aggregated engines. None where no ITL objective is missed, where a token budget keeps
    every promise, where no model is known, and where no split keeps them at its pessimistic end.
    """
    for (model, role), group in scene.groups().items():
        promises = scene.promises(group)
        missed = [s for s in promises if s.slo.sli == "itl" and scene.misses(group, s)]
        if role != "aggregated" or not missed or not LEAST_REPLICAS <= len(group) <= LARGEST_GROUP:
            continue
        view, objectives = scene.view(group), objectives_of(promises)
        rate = None if view is None else view.traffic.rate
        if view is None or rate is None or _a_budget_keeps_them(view, objectives):
            continue
        tokens = view.load.input_tokens
        link = Transfer(POST_SECONDS_PER_TOKEN * tokens, tokens * KV_BYTES_PER_TOKEN / WIRE_BYTES_PER_SECOND)
        load = replace(view.load, concurrency=None, rate=rate)
        found = outlooks(view.engine, load, len(group), link, objectives)
        good = [one for one in found if one.prefill and one.meets_slo]
        if good and not found[0].meets_slo:
            best = min(good, key=lambda one: (one.pessimistic_strain, one.ttft_p95_seconds or 0.0))
            yield _recommend(scene, model, group, view, missed[0], found, best)


def _a_budget_keeps_them(view: GroupView, objectives: Sequence[Objective]) -> bool:
    engine = view.engine
    return any(
        predict(replace(engine, limits=replace(engine.limits, token_budget=budget)), view.load, objectives).meets_slo
        for budget in budgets(engine.limits.token_budget)
    )


def _recommend(
    scene: Scene,
    model: str,
    group: Sequence[TargetStatus],
    view: GroupView,
    status: SloStatus,
    found: Sequence[Outlook],
    best: Outlook,
) -> Recommendation:
    now, price = found[0], scene.dollars_per_hour(group)
    return Recommendation(
        id=f"topology-{model}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role="aggregated",
        action="topology",
        current=0.0,
        proposed=float(best.prefill),
        low=float(min(one.prefill for one in found if one.prefill and one.meets_slo)),
        high=float(max(one.prefill for one in found if one.prefill and one.meets_slo)),
        reason_code="split_prefill_and_decode",
        binding="itl",
        summary=(
            f"Split the {len(group)} engines of {model} into {best.name}: others' prefill breaks {status.slo.name}, "
            f"and no smaller token budget keeps every promise. ITL p99 goes from {ms(now.itl_p99_seconds)} to "
            f"{ms(best.itl_p99_seconds)}; TTFT pays: p95 from {ms(now.ttft_p95_seconds)} to "
            f"{ms(best.ttft_p95_seconds)}."
        ),
        confidence=CONFIDENCE,
        meets_slo=True,
        evidence=(
            Evidence("requests_per_second", LOAD_SECONDS, view.traffic.rate),
            Evidence("input_tokens_mean", LOAD_SECONDS, view.load.input_tokens),
            Evidence("output_tokens_mean", LOAD_SECONDS, view.load.output_tokens),
            Evidence("prefill_seconds_per_token", LOAD_SECONDS, view.engine.steps.prefill_seconds_per_token),
            *burns_of([status]),
        ),
        alternatives=tuple(
            {
                "setting": one.name,
                "ttft_p95_seconds": one.ttft_p95_seconds,
                "itl_p99_seconds": one.itl_p99_seconds,
                "goodput_ratio": None,
                "dollars_per_hour": price,
                "meets_slo": one.meets_slo,
            }
            for one in found
        ),
        do_nothing={
            "itl_p99_seconds": now.itl_p99_seconds,
            "summary": stays_missed(status, now),
            "meets_slo": False,
        },
        side_effects=(
            "TTFT gets a transfer and one more queue: its tail rises wherever prompts come in bursts",
            (
                "the link is assumed, not measured: 25 GB/s, blocks of 128 tokens, 128 KiB of KV a token; with smaller "
                "blocks posting the transfers stalls decode"
            ),
            "two pools must be sized and repaired apart from each other",
        ),
        steps=(
            "measure the link between two of the hosts first",
            f"bring up one prefill and one decode engine beside the others, with 1/{len(group)} of the traffic",
            f"when TTFT and ITL are as predicted, move the rest: {best.name}",
        ),
        rollback="send all traffic to the aggregated engines again; keep them until the new ones are judged",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )
