"""Rule: a latency objective that one request alone does not keep. No number of replicas helps; what does is named."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agent.advice.capacity import Prediction, predict
from agent.advice.scene import LEARN_SECONDS, LOAD_SECONDS, GroupView, Scene, alternative, burns_of, objectives_of
from agent.model import Evidence, Recommendation, SloStatus, TargetStatus

VERIFY_SECONDS = 3_600.0
CONFIDENCE = 0.9  # it is the optimistic end that breaks


def infeasible(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model and role, for the first objective that breaks with a single user on an engine.

    None where nothing is missed, and where no model is known.
    """
    for (model, role), group in scene.groups().items():
        promises = [status for status in scene.promises(group) if scene.misses(group, status)]
        if not promises or role == "prefill":
            continue
        view = scene.view(group)
        if view is None:
            continue
        for status in promises:
            alone = predict(view.engine, replace(view.load, concurrency=1), objectives_of([status]))
            if alone.meets_slo is False and _breaks_even_optimistically(alone, status):
                yield _recommend(scene, model, role, group, view, status, alone)
                break


def _breaks_even_optimistically(alone: Prediction, status: SloStatus) -> bool:
    """The middle request is too slow, even at the optimistic end: it is not a matter of a few long prompts."""
    figures = {"ttft": alone.ttft_p50_seconds, "itl": alone.itl_p50_seconds, "tpot": alone.tpot_mean_seconds}
    figure = figures.get(status.slo.sli)
    threshold = status.slo.threshold_seconds
    return figure is not None and figure.low is not None and threshold is not None and figure.low > threshold


def _recommend(
    scene: Scene,
    model: str,
    role: str,
    group: Sequence[TargetStatus],
    view: GroupView,
    status: SloStatus,
    alone: Prediction,
) -> Recommendation:
    slo, replicas = status.slo, float(len(group))
    is_prompt = slo.sli == "ttft"
    figure = alone.ttft_p50_seconds if is_prompt else alone.itl_p50_seconds
    least = 0.0 if figure is None or figure.value is None else figure.value
    threshold = slo.threshold_seconds or 0.0
    steps = view.engine.steps
    fits = max(0.0, (threshold - view.engine.front_end_seconds - steps.overhead_seconds))
    tokens = fits / steps.prefill_seconds_per_token if steps.prefill_seconds_per_token else 0.0
    what = (
        f"a prompt of {view.load.input_tokens:,.0f} tokens alone takes {least:.2f} s" if is_prompt
        else f"one request alone has a gap of {least * 1e3:.1f} ms between tokens"
    )  # fmt: skip
    times = f", {least / threshold:.1f} times its threshold" if threshold > 0 else ""
    ways = (
        "more GPUs a replica (tensor parallelism): the time of a step falls nearly in proportion",
        "quantised weights or KV cache: less to read a step; guard it with the correctness canary",
        "a smaller model; guard it with the correctness canary",
        *((f"prompts of at most {tokens:,.0f} tokens, or a prefix cache that has the rest",) if is_prompt else ()),
        f"a threshold that can be kept: above {1.2 * least:.2g} s",
    )
    return Recommendation(
        id=f"infeasible-{model}-{role}-{slo.name}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="none",
        current=replicas,
        proposed=replicas,
        low=replicas,
        high=replicas,
        reason_code="infeasible_slo",
        binding=slo.sli,
        summary=(
            f"No number of replicas keeps {slo.name}: {what}{times}. The limit is the engine itself, not the load."
        ),
        confidence=CONFIDENCE,
        meets_slo=False,
        evidence=(
            Evidence("step_overhead_seconds", LEARN_SECONDS, steps.overhead_seconds),
            Evidence("prefill_seconds_per_token", LEARN_SECONDS, steps.prefill_seconds_per_token),
            Evidence("input_tokens_mean", LOAD_SECONDS, view.load.input_tokens),
            Evidence("threshold_seconds", slo.period_seconds, threshold),
            *burns_of([status]),
        ),
        alternatives=(alternative("one user on every replica", alone, scene.dollars_per_hour(group)),),
        do_nothing={"summary": f"{slo.name} goes on burning, whatever is scaled", "meets_slo": False},
        side_effects=("replicas that were added for this objective alone cost money and change nothing",),
        steps=ways,
        rollback="nothing was changed",
        verify_at_seconds=scene.now_seconds + VERIFY_SECONDS,
    )
