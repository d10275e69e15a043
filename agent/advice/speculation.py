"""Rule: speculative decoding. Off, where drafts are mostly refused; on trial, where a small batch is too slow a token.

A step with drafts gives 1 + accepted / drafts tokens, so it pays only while it takes less than so many times a step
without. vLLM's ITL is one observation a step: with drafts it does not get shorter, TPOT does.
"""

from collections.abc import Iterator, Sequence

from agent.advice.engine_facts import engine_facts
from agent.advice.scene import LOAD_SECONDS, GroupView, Scene, burns_of, untold
from agent.model import Evidence, Recommendation, SloStatus, TargetStatus
from agent.signals.sums import Sums, add_up

LEAST_DRAFTS = 1_000.0
POOR_TOKENS = 1.3  # a step; our choice: what drafting and checking take is on no page
SMALL_BATCH = 8.0  # beyond it a GPU has no idle arithmetic left to check drafts with
DECODE_RATIO = 0.8  # of the TPOT that is missed is the decode step itself, and not others' prefill
MOST_NEEDED = 2.5  # tokens a step: more is not to be hoped for
VERIFY_SECONDS = 1_800.0
POOR_CONFIDENCE, TRIAL_CONFIDENCE = 0.7, 0.4  # how much is accepted is measured, or not known before it is tried


def speculation(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model and role."""
    for (model, role), group in scene.groups().items():
        if role == "prefill":
            continue
        increments = scene.increments(group, LOAD_SECONDS)
        sums = add_up(increments)
        tokens = tokens_per_step(sums)
        if tokens is not None:
            if tokens < POOR_TOKENS:
                yield _off(scene, model, role, group, sums, tokens)
            continue
        facts = engine_facts([scene.plan.targets.get(status.name) for status in group], increments)
        missed = [s for s in scene.promises(group) if s.slo.sli == "tpot" and scene.misses(group, s)]
        view = scene.view(group) if missed and not facts.speculates else None
        needed = None if view is None else _needed(view, missed[0])
        if view is not None and needed is not None:
            yield _trial(scene, model, role, group, view, missed[0], needed)


def tokens_per_step(sums: Sums) -> float | None:
    """1 + accepted / drafts; None where too little was drafted."""
    drafts, accepted = sums.counter("spec_decode_drafts_total"), sums.counter("spec_decode_accepted_tokens_total")
    if drafts is None or drafts < LEAST_DRAFTS or accepted is None:
        return None
    return 1 + accepted / drafts


def _needed(view: GroupView, status: SloStatus) -> float | None:
    """Tokens a step that would keep the promise; None where the batch is large, or steps are not what is slow."""
    batch, threshold = view.traffic.felt_running, status.slo.threshold_seconds
    if batch is None or batch > SMALL_BATCH or not threshold:
        return None
    context = view.load.input_tokens + view.load.output_tokens / 2
    needed = view.engine.steps.seconds(0.0, batch, batch * context) / threshold
    return needed if DECODE_RATIO < needed <= MOST_NEEDED else None


def _off(
    scene: Scene, model: str, role: str, group: Sequence[TargetStatus], sums: Sums, tokens: float
) -> Recommendation:
    drafted, accepted = sums.counter("spec_decode_draft_tokens_total"), tokens - 1
    counted = sums.counter("spec_decode_accepted_tokens_total")
    rate = counted / drafted if drafted and counted is not None else None
    running = sums.level("requests_running")
    price = scene.dollars_per_hour(group)
    told = "" if rate is None else f"{100 * rate:.0f} % of the drafted tokens are accepted, and "
    return Recommendation(
        id=f"speculation-off-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="knob",
        current=1.0,
        proposed=0.0,
        low=0.0,
        high=0.0,
        reason_code="speculation_poor",
        binding="tpot",
        summary=(
            f"Turn speculative decoding of {model} ({role}) off, or draft less: {told}a step gives {tokens:.2f} "
            f"tokens. It pays only if a step with drafts takes less than {tokens:.2f} times one without."
        ),
        confidence=POOR_CONFIDENCE,
        meets_slo=None,
        evidence=(
            Evidence("spec_decode_acceptance_ratio", LOAD_SECONDS, rate),
            Evidence("spec_decode_tokens_per_step", LOAD_SECONDS, tokens),
            Evidence("spec_decode_accepted_tokens_per_draft", LOAD_SECONDS, accepted),
            Evidence("spec_decode_drafts", LOAD_SECONDS, sums.counter("spec_decode_drafts_total")),
            Evidence("requests_running", LOAD_SECONDS, None if running is None else running.mean),
        ),
        alternatives=(
            untold("drafts as they are", price),
            untold("fewer tokens a draft (num_speculative_tokens)", price),
            untold("no --speculative-config", price),
        ),
        do_nothing={"summary": "most of what is drafted is computed and thrown away", "meets_slo": None},
        side_effects=(
            "with traffic whose drafts are accepted (code, repetition) it had its use: compare by the hour",
            "the memory of a draft model is free for KV afterwards",
            "the engine is restarted: its cache begins empty",
        ),
        steps=(
            f"restart one replica of {model} ({role}) without --speculative-config",
            "compare its TPOT and tokens per second with the others' for half an hour, under the same load",
            "then the other replicas, one after the other, or fewer tokens a draft",
        ),
        rollback="restart with the --speculative-config of before",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )


def _trial(
    scene: Scene,
    model: str,
    role: str,
    group: Sequence[TargetStatus],
    view: GroupView,
    status: SloStatus,
    needed: float,
) -> Recommendation:
    price, batch = scene.dollars_per_hour(group), view.traffic.felt_running
    return Recommendation(
        id=f"speculation-try-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="knob",
        current=0.0,
        proposed=1.0,
        low=1.0,
        high=1.0,
        reason_code="speculation_trial",
        binding="tpot",
        summary=(
            f"Try speculative decoding on one replica of {model} ({role}): with only {batch or 0:.0f} requests in a "
            f"batch a step is {needed:.2f} times what {status.slo.name} allows a token. More tokens a step than that, "
            "and than what drafts take, would keep it."
        ),
        confidence=TRIAL_CONFIDENCE,
        meets_slo=None,
        evidence=(
            Evidence("requests_running_per_replica", LOAD_SECONDS, batch),
            Evidence("decode_step_over_threshold", LOAD_SECONDS, needed),
            Evidence("threshold_seconds", status.slo.period_seconds, status.slo.threshold_seconds),
            *burns_of([status]),
        ),
        alternatives=(
            untold("no drafts, as now", price),
            untold("n-gram drafts: no memory, for texts that repeat their prompt", price),
            untold("a draft model or head of this model's family", price),
        ),
        do_nothing={"summary": f"{status.slo.name} stays missed: fewer users do not make a step shorter"},
        side_effects=(
            "how much is accepted depends on the texts, and is not known before: nothing here is predicted",
            "gaps between outputs (ITL) do not get shorter, each brings more tokens: promise TPOT instead",
            "a draft model takes memory from the KV cache, and at large batches drafts cost more than they bring",
            "the step-time model says nothing of an engine that drafts: advice on replicas goes by queues then",
        ),
        steps=(
            f"restart one replica of {model} ({role}) with a --speculative-config",
            f"after half an hour read the tokens a step: fewer than {max(POOR_TOKENS, needed):.1f} are not worth it",
            "have a canary of kind correctness run on it",
            "then the other replicas, one after the other",
        ),
        rollback="restart without --speculative-config",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )
