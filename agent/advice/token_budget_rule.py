"""Rule: a smaller token budget, where others' prefill makes the gaps that break an ITL objective. The cheapest knob."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agent.advice.capacity import Objective, Prediction, Signal, predict
from agent.advice.scene import LEARN_SECONDS, LOAD_SECONDS, GroupView, Scene, alternative, burns_of, objectives_of
from agent.advice.token_budget import TokenBudget
from agent.model import Evidence, Figure, Recommendation, SloStatus, TargetStatus
from agent.signals.sums import add_up
from agent.stats.buckets import share_over

SMALLEST_BUDGET = 512  # below it every prompt takes many steps, and the step's base is paid as often
VERIFY_SECONDS = 900.0
LEAST_GAIN_RATIO = 0.8  # of the share that breaks the objective: a knob that helps less is not worth a restart


def token_budget(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model and role. None where no ITL objective is missed, no model is known, or no budget helps."""
    for (model, role), group in scene.groups().items():
        promises = scene.promises(group)
        missed = [s for s in promises if s.slo.sli == "itl" and scene.misses(group, s)]
        view = scene.view(group) if missed and role != "prefill" else None
        if view is None:
            continue
        advice = _advise(scene, model, role, group, view, missed[0], objectives_of(promises))
        if advice is not None:
            yield advice


def _advise(
    scene: Scene,
    model: str,
    role: str,
    group: Sequence[TargetStatus],
    view: GroupView,
    status: SloStatus,
    objectives: Sequence[Objective],
) -> Recommendation | None:
    current = view.engine.limits.token_budget
    thresholds: list[tuple[Signal, float]] = [("itl", status.slo.threshold_seconds or 0.0)]
    tried = {
        budget: predict(
            replace(view.engine, limits=replace(view.engine.limits, token_budget=budget)),
            view.load,
            objectives,
            thresholds,
        )
        for budget in budgets(current)
    }
    if tried[current].meets_slo:
        return None  # the model does not show what is seen, so it cannot say what would mend it
    now = _share(tried[current])
    good = [budget for budget, said in tried.items() if budget < current and said.meets_slo]
    best = max(good) if good else min(tried, key=lambda budget: _pessimistic(tried[budget]))
    if best == current or now is None or _pessimistic(tried[best]) > LEAST_GAIN_RATIO * now:
        return None
    said, before = tried[best], tried[current]
    price = scene.dollars_per_hour(group)
    promised = (
        f"{status.slo.name} is then kept" if said.meets_slo else "nothing tried keeps every promise; this is nearest"
    )
    gaps = add_up(scene.increments(group, LOAD_SECONDS)).histogram("itl_seconds")
    seen = share_over(gaps, status.slo.threshold_seconds or 0.0, are_independent=False) if gaps is not None else None
    return Recommendation(
        id=f"token-budget-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="knob",
        current=float(current),
        proposed=float(best),
        low=float(min(good, default=best)),
        high=float(best),
        reason_code="token_budget",
        binding="itl",
        summary=(
            f"Start {model} ({role}) with --max-num-batched-tokens {best} instead of {current}: gaps hold others' "
            f"prefill. ITL p99 goes from {_ms(before.itl_p99_seconds)} to {_ms(said.itl_p99_seconds)}, p95 from "
            f"{_ms(before.itl_p95_seconds)} to {_ms(said.itl_p95_seconds)}, mean TTFT from "
            f"{_ms(before.ttft_mean_seconds)} to {_ms(said.ttft_mean_seconds)}; {promised}."
        ),
        confidence=round(max(0.3, 0.9 - 5 * view.engine.steps.error_ratio), 2),
        meets_slo=said.meets_slo,
        evidence=(
            Evidence(f"itl_seconds>{thresholds[0][1]:g}", LOAD_SECONDS, None if seen is None else seen.value),
            Evidence(f"max_num_batched_tokens:{view.budget.source}", LEARN_SECONDS, float(current)),
            Evidence("requests_running_per_replica", LOAD_SECONDS, view.traffic.felt_running),
            Evidence("input_tokens_mean", LOAD_SECONDS, view.load.input_tokens),
            Evidence("prefill_seconds_per_token", LOAD_SECONDS, view.engine.steps.prefill_seconds_per_token),
            *burns_of([status]),
        ),
        alternatives=tuple(
            alternative(f"--max-num-batched-tokens {budget}", tried[budget], price) for budget in sorted(tried)
        ),
        do_nothing={
            "itl_p99_seconds": None if before.itl_p99_seconds is None else before.itl_p99_seconds.value,
            "summary": f"{100 * now:.1f} % of the gaps stay longer than {thresholds[0][1]:g} s",
            "meets_slo": before.meets_slo,
        },
        side_effects=(
            "a prompt takes more steps: the longest gaps get shorter, but more gaps hold a part of one: p95 can rise",
            f"the budget of now is {view.budget.words}{_check(view.budget)}",
            "the engine is restarted: its cache begins empty",
        ),
        steps=_steps(f"{model} ({role})", best, len(group)),
        rollback=f"restart with --max-num-batched-tokens {current}",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )


def _steps(who: str, budget: int, replicas: int) -> tuple[str, ...]:
    if replicas == 1:
        return (
            f"restart {who} with --max-num-batched-tokens {budget}",
            "compare its ITL p99 and TTFT with those of before for a quarter of an hour",
        )
    return (
        f"restart one replica of {who} with --max-num-batched-tokens {budget}",
        "compare its ITL p99 and TTFT with the others' for a quarter of an hour",
        "then the other replicas, one after the other",
    )


def budgets(current: int) -> list[int]:
    """The current budget and its halves."""
    found = [current]
    while found[-1] // 2 >= SMALLEST_BUDGET:
        found.append(found[-1] // 2)
    return found


def _check(budget: TokenBudget) -> str:
    return "" if budget.source in ("config", "pod") else ": check it in the engine's arguments first"


def _share(said: Prediction) -> float | None:
    figure = next(iter(said.over_threshold_ratio.values()), None)
    return None if figure is None else figure.value


def _pessimistic(said: Prediction) -> float:
    figure = next(iter(said.over_threshold_ratio.values()), None)
    return 1.0 if figure is None or figure.high is None else figure.high


def _ms(figure: Figure | None) -> str:
    return "unknown" if figure is None or figure.value is None else f"{figure.value * 1e3:.0f} ms"
