"""Rule: a replica whose steps take longer than the same steps of its fellows. Routing is not what is wrong with it.

Load alone does not tell: a slow replica holds its requests longer, and one that gets more is slower for it. The law of
the other replicas does: how long they would have taken for the very steps that this one did.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median, median_low

from agent.advice.capacity import EngineCapacity, Prediction, Z, predict
from agent.advice.capacity_book import CapacityBook, Kind
from agent.advice.domain import FAR, LARGEST_ERROR_RATIO
from agent.advice.scene import (
    LEARN_SECONDS,
    LEAST_STRETCHES,
    LOAD_SECONDS,
    GroupView,
    Scene,
    alternative,
    burns_of,
    objectives_of,
)
from agent.advice.shares import Share, shares_of
from agent.advice.step_model import fit_step_model
from agent.advice.step_samples import Sampler, StepSample
from agent.model import Evidence, Recommendation, SloStatus, TargetStatus

LEAST_SLOW_RATIO = 1.25  # beyond the law's own error: clocks that fall, a throttled card, a neighbour on it
LEAST_OWN_STRETCHES = 8
NEARLY_ALL = 0.9  # of its stretches are longer than the law says
LEAST_GAP_RATIO = 1.1  # of the usual gap between tokens: else nobody looks closer
MOST_SUSPECTS = 2  # each is compared with so many fellows: a law is fitted for it every minute
MOST_FELLOWS = 8
NO_MORE = 1.2  # times what the others get
CONFIDENCE = 0.8
VERIFY_SECONDS = 900.0
STEP_RATIO = "step_time_ratio:"


@dataclass(frozen=True, slots=True)
class Slow:
    """`ratio`: how many times as long as its fellows' its steps take; `beyond`: it is slow, and not by chance."""

    ratio: float
    is_slow: bool


def step_ratio(scene: Scene, group: Sequence[TargetStatus], shares: Sequence[Share], name: str) -> Slow | None:
    """One replica's steps of the last minutes against the law of the others' last hour.

    None of replicas on different GPUs, where it has too few busy stretches, or its fellows too few or no law, and where
    it does more than they do and so much more at once that their law was never seen to hold there.
    """
    facts = [scene.plan.targets.get(status.name) for status in group]
    if len(group) < 2 or len({fact.gpu_type if fact else None for fact in facts}) > 1:
        return None
    seen = _samples(scene, [status for status in group if status.name != name][:MOST_FELLOWS])
    mine = [sample for status in group if status.name == name for sample in _stretches(scene, status)]
    return against(seen, mine, does_no_more=_does_no_more(name, shares))


def _does_no_more(name: str, shares: Sequence[Share]) -> bool:
    """No more requests and no more work than the others: what is different about it, it is by itself."""
    its = next((share for share in shares if share.name == name), None)
    rest = [share for share in shares if share.name != name]
    work = [share.work_tokens for share in rest if share.work_tokens is not None]
    if its is None or its.work_tokens is None or len(work) < len(rest):
        return False
    return its.requests <= NO_MORE * median(s.requests for s in rest) and its.work_tokens <= NO_MORE * median(work)


def _is_seen(mine: Sequence[StepSample], seen: Sequence[StepSample]) -> bool:
    """Whether its usual step is at most twice the largest of the others', by prompt tokens, sequences and KV."""
    usual = [median(s.row[term] / s.steps for s in mine) for term in (1, 2, 3)]
    largest = [max(s.row[term] / s.steps for s in seen) for term in (1, 2, 3)]
    return all(its <= FAR * most for its, most in zip(usual, largest, strict=True))


def against(seen: Sequence[StepSample], mine: Sequence[StepSample], *, does_no_more: bool) -> Slow | None:
    """These stretches against the law of those that were seen of others; None as `step_ratio` has it."""
    law = fit_step_model(seen)
    if law is None or law.samples < LEAST_STRETCHES or law.error_ratio > LARGEST_ERROR_RATIO:
        return None
    if len(mine) < LEAST_OWN_STRETCHES or not (does_no_more or _is_seen(mine, seen)):
        return None
    steps = [tuple(x / sample.steps for x in sample.row[1:]) for sample in mine]
    each = [s.seconds / (law.seconds(*step) * s.steps) for s, step in zip(mine, steps, strict=True)]
    unsure = law.error_ratio + Z * median(law.standard_error_ratio(*step) for step in steps)
    longer = sum(one > 1 + LARGEST_ERROR_RATIO for one in each)
    is_slow = median(each) >= LEAST_SLOW_RATIO + unsure and longer >= NEARLY_ALL * len(each)
    return Slow(median(each), is_slow=is_slow)


def slow_replica(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model and role: the slowest of those whose users wait longest for tokens. None of fewer than two
    replicas, and where one is not read.
    """
    for (model, role), group in scene.groups().items():
        shares = shares_of(scene, group)
        ratios = {} if shares is None else {name: step_ratio(scene, group, shares, name) for name in _suspects(shares)}
        slow = {name: one.ratio for name, one in ratios.items() if one is not None and one.is_slow}
        if shares is not None and slow:
            name = max(slow, key=lambda one: slow[one])
            yield _recommend(scene, model, role, group, shares, slow, name)


def _suspects(shares: Sequence[Share]) -> list[str]:
    """Steps that take longer show in the gaps between tokens, whatever a replica is sent: the worst of those."""
    known = [(share.itl_mean_seconds, share.name) for share in shares if share.itl_mean_seconds is not None]
    if len(known) < 2:
        return []
    usual = median_low(gap for gap, _ in known)
    return [name for gap, name in sorted(known, reverse=True)[:MOST_SUSPECTS] if gap >= LEAST_GAP_RATIO * usual]


def _samples(scene: Scene, others: Sequence[TargetStatus]) -> list[StepSample]:
    """What the others showed of their steps in the last hour."""
    book = CapacityBook()
    book.take(scene.increments(others, LEARN_SECONDS), lambda key: Kind(key.model, "", ""))
    return next((learned.book.samples for learned in book.learned.values()), [])


def _stretches(scene: Scene, status: TargetStatus) -> list[StepSample]:
    samplers: dict[object, Sampler] = {}
    found = []
    for increment in scene.increments([status], LOAD_SECONDS):
        sample = samplers.setdefault(increment.key, Sampler()).take(increment)
        if sample is not None:
            found.append(sample)
    return found


def _recommend(
    scene: Scene,
    model: str,
    role: str,
    group: Sequence[TargetStatus],
    shares: Sequence[Share],
    slow: Mapping[str, float],
    name: str,
) -> Recommendation:
    ratio = slow[name]
    view = scene.view([status for status in group if status.name != name])
    price = scene.dollars_per_hour(group)
    each = None if price is None else price / len(group)
    promises = scene.promises(group)
    choices = _choices(view, shares, ratio, name, each, promises)
    return Recommendation(
        id=f"slow-replica-{name}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="repair",
        current=ratio,
        proposed=1.0,
        low=1.0,
        high=1.0,
        reason_code="slow_replica",
        binding="steps",
        summary=(
            f"Drain {name} of {model} ({role}), and repair or replace it: its steps take {ratio:.1f} times as long as "
            f"the same steps of the other {len(group) - 1}. It is not what it is sent: look at its GPU (clocks, "
            "temperature, throttle reasons, XID and ECC errors), then at what else runs on its host."
        ),
        confidence=CONFIDENCE,
        meets_slo=choices[-1]["meets_slo"] if choices else None,  # type: ignore[arg-type]
        evidence=(
            *(Evidence(f"{STEP_RATIO}{one}", LOAD_SECONDS, known) for one, known in slow.items()),
            *(Evidence(f"requests:{share.name}", LOAD_SECONDS, share.requests) for share in shares),
            *(Evidence(f"requests_in_engine:{share.name}", LOAD_SECONDS, share.load) for share in shares),
            *(Evidence(f"itl_seconds_mean:{share.name}", LOAD_SECONDS, share.itl_mean_seconds) for share in shares),
            *burns_of(promises),
        ),
        alternatives=tuple(choices),
        do_nothing={
            "summary": f"requests that are sent to {name} go on taking {ratio:.1f} times as long a step",
            "meets_slo": choices[0]["meets_slo"] if choices else None,
        },
        side_effects=(
            f"while {name} is away the others carry its requests",
            "a replica that comes back begins with an empty prefix cache",
        ),
        steps=(
            f"look at the GPU and the host of {name}: alerts about its GPU, `slo-agent report`, the kernel's log",
            f"where there is a free GPU, bring up another replica first; then drain {name}",
            "repair, reset or replace what was found; where nothing was, start it on another host",
        ),
        rollback=f"let {name} serve again",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )


def _choices(
    view: GroupView | None,
    shares: Sequence[Share],
    ratio: float,
    name: str,
    dollars_per_hour: float | None,
    promises: Sequence[SloStatus],
) -> list[dict[str, object]]:
    """The slow one as it is, the others without it, and all of them when it is well; none where no model is known."""
    if view is None:
        return []
    all_of_them, its = sum(share.requests for share in shares), next(s.requests for s in shares if s.name == name)
    count, objectives = len(shares), objectives_of(promises)
    ill = replace(view.engine, steps=view.engine.steps.scaled(ratio))

    def said(engine: EngineCapacity, requests: float, replicas: int) -> Prediction:
        rate = requests / LOAD_SECONDS
        return predict(engine, replace(view.load, concurrency=None, rate=rate, routed_over=replicas), objectives)

    price = None if dollars_per_hour is None else dollars_per_hour * count
    less = None if dollars_per_hour is None else dollars_per_hour * (count - 1)
    return [
        alternative(f"{name} as it is", said(ill, its, count), price),
        alternative(f"without {name}", said(view.engine, all_of_them / (count - 1), count - 1), less),
        alternative(f"{name} repaired or replaced", said(view.engine, all_of_them / count, count), price),
    ]
