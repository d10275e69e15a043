"""What clients would feel with another number of replicas: each one's part of the forecast load, rehearsed.

Asked only for advice that is told: a count takes a twentieth of a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.advice.capacity import EngineCapacity, Objective, predict
from agent.advice.capacity_book import Learned
from agent.advice.carries import SPREAD_RATIO, Carried
from agent.advice.demand import Mix
from agent.advice.engine_facts import engine_facts
from agent.advice.forecast import Forecast
from agent.advice.rehearsal import Load
from agent.advice.replicas import DRAIN_SECONDS
from agent.advice.scene import LEARN_SECONDS, Scene, engine_of
from agent.model import Figure, Recommendation


@dataclass(frozen=True, slots=True)
class Basis:
    """What scaling advice stands on. `counts` are those of its alternatives, in their order; of each, `lost` carry
    nothing. `waiting` requests stand in the queue now.
    """

    counts: Sequence[int]
    lost: int
    waiting: float
    learned: Learned
    forecast: Forecast
    carried: Carried
    mix: Mix
    objectives: Sequence[Objective]

    def keeps(self, count: int) -> bool | None:
        """Whether so many replicas keep the objectives: True only where the largest load but one in ten is carried at
        the pessimistic end, False where even the median is not at the optimistic one. The queue that stands now comes
        on top of both: until it is gone nothing is kept.
        """
        there, queue = count - self.lost, self.waiting / DRAIN_SECONDS
        if there * self.carried.low >= self.forecast.q90 + queue:
            return True
        return False if there * self.carried.high < self.forecast.q50 + queue else None


@dataclass(frozen=True, slots=True)
class Felt:
    """By clients, at the median of the forecast; `low` and `high` reach from there on a faster engine to the largest
    load but one in ten on a slower one. None: a queue that grows without end, or nobody serves.
    """

    ttft_p95: Figure | None
    itl_p99: Figure | None
    meets_slo: bool | None


def felt(engine: EngineCapacity, basis: Basis, count: int) -> Felt:
    """What so many replicas of this engine would feel like, with what was seen to be wrong of the model put right."""
    there = count - basis.lost
    if there <= 0:
        return Felt(None, None, meets_slo=False)
    usual, most = (
        predict(engine, _load(basis, rate / there), basis.objectives)
        for rate in (basis.forecast.q50, basis.forecast.q90)
    )
    keeps = basis.keeps(count)
    meets = False if keeps is False or usual.meets_slo is False else True if keeps and most.meets_slo else None
    return Felt(
        _between(usual.ttft_p95_seconds, most.ttft_p95_seconds),
        _between(usual.itl_p99_seconds, most.itl_p99_seconds),
        meets,
    )


def foreseen(advice: Recommendation, basis: Basis, scene: Scene) -> Recommendation:
    """The same advice, with what each count would feel like."""
    steps, group = basis.learned.steps, scene.groups().get((advice.model, advice.role), [])
    if steps is None:
        return advice
    told = engine_facts([scene.plan.targets.get(s.name) for s in group], scene.increments(group, LEARN_SECONDS))
    engine, _ = engine_of(basis.learned, steps, told)
    said = {count: felt(engine, basis, count) for count in {*basis.counts, int(advice.current), int(advice.proposed)}}
    alternatives = tuple(
        {**setting, **_told(said[count])} for count, setting in zip(basis.counts, advice.alternatives, strict=True)
    )
    now = said[int(advice.current)]
    return replace(
        advice,
        alternatives=alternatives,
        meets_slo=said[int(advice.proposed)].meets_slo,
        do_nothing={**advice.do_nothing, **_told(now)},
    )


def _load(basis: Basis, rate: float) -> Load:
    """One replica that was seen to carry less than the model says is asked for more, in the same proportion."""
    mix = basis.mix
    return Load(
        mix.input_tokens,
        mix.output_tokens,
        rate=max(1e-3, rate / basis.carried.correction),
        spread_ratio=SPREAD_RATIO,
        hit_ratio=mix.hit_ratio,
    )


def _between(usual: Figure | None, most: Figure | None) -> Figure | None:
    """The value at the usual load, from the optimistic end there to the pessimistic one at the largest; `high` None:
    no end.
    """
    if usual is None:
        return None
    highs = None if most is None or most.high is None or usual.high is None else max(usual.high, most.high)
    return replace(usual, high=highs)


def _told(of: Felt) -> dict[str, object]:
    told: dict[str, object] = {"meets_slo": of.meets_slo}
    for name, figure in (("ttft_p95", of.ttft_p95), ("itl_p99", of.itl_p99)):
        told[f"{name}_seconds"] = None if figure is None else figure.value
        told[f"{name}_interval_seconds"] = None if figure is None else [figure.low, figure.high]
    return told
