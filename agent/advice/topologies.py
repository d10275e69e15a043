"""The same engines put together otherwise: each doing all of it, or some prefilling for others that decode."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agent.advice.capacity import EngineCapacity, Objective, Signal
from agent.advice.rehearsal import Load, Rehearsed, rehearse
from agent.stats.weighted import Weighted, weighted_mean, weighted_percentiles, weighted_share_over


@dataclass(frozen=True, slots=True)
class Transfer:
    """What handing a prompt's KV over costs: the decode loop stands still for one part, the other is under way."""

    post_seconds: float
    wire_seconds: float


@dataclass(frozen=True, slots=True)
class Outlook:
    """What clients would feel of one topology. `prefill` 0: aggregated.

    `strain` is the worst objective's share of misses over what it allows (1: just kept), at the value and at the
    pessimistic end; `meets_slo` is whether the pessimistic end keeps all. `overshoot` is how many times its threshold
    the worst objective's percentile takes: it goes on where every request misses, and tells which topology is nearer.
    """

    prefill: int
    decode: int
    ttft_mean_seconds: float | None
    ttft_p95_seconds: float | None
    itl_p99_seconds: float | None
    strain: float
    pessimistic_strain: float
    overshoot: float

    @property
    def meets_slo(self) -> bool:
        return self.pessimistic_strain <= 1.0

    @property
    def name(self) -> str:
        if not self.prefill:
            return f"{self.decode} aggregated"
        return f"{self.prefill} prefill and {self.decode} decode"


def outlooks(
    engine: EngineCapacity, load: Load, replicas: int, transfer: Transfer, objectives: Sequence[Objective]
) -> list[Outlook]:
    """Every way to put so many engines together, aggregated first. `load.rate` is that of all of them together."""
    splits = [(prefill, replicas - prefill) for prefill in range(1, replicas)]
    return [
        aggregated_outlook(engine, load, replicas, objectives),
        *split_outlooks(engine, load, splits, transfer, objectives),
    ]


def aggregated_outlook(engine: EngineCapacity, load: Load, replicas: int, objectives: Sequence[Objective]) -> Outlook:
    """So many engines, each doing all of it."""
    each = replace(load, concurrency=None, rate=(load.rate or 0.0) / replicas, routed_over=replicas)
    error = max(engine.error_ratio(*_batch(engine, each)), engine.prefill_error_ratio or 0.0)
    value, worst = _ends(engine, error)
    return _outlook(0, replicas, objectives, _alone(value, each), _alone(worst, _by_chance(each)))


def split_outlooks(
    engine: EngineCapacity,
    load: Load,
    splits: Sequence[tuple[int, int]],
    transfer: Transfer,
    objectives: Sequence[Objective],
) -> list[Outlook]:
    """So many engines that prefill and so many that decode, each pair; `splits` have equal sums but for an engine."""
    rate, total = load.rate or 0.0, max((sum(split) for split in splits), default=1)
    each = replace(load, concurrency=None, rate=rate / total, routed_over=total)
    error = engine.error_ratio(*_batch(engine, each))
    found = []
    for prefill, decode in splits:
        first = replace(each, rate=rate / prefill, output_tokens=1.0, routed_over=prefill)
        second = replace(
            each, rate=rate / decode, hit_ratio=1.0, post_seconds=transfer.post_seconds, routed_over=decode
        )
        early = error if engine.prefill_error_ratio is None else engine.prefill_error_ratio
        ends = zip(_ends(engine, early), _ends(engine, error), strict=True)
        (one, other), (worst_one, worst_other) = ends
        runs = [
            _split(one, other, first, second, transfer),
            _split(worst_one, worst_other, _by_chance(first), _by_chance(second), transfer),
        ]
        found.append(_outlook(prefill, decode, objectives, *runs))
    return found


def _batch(engine: EngineCapacity, each: Load) -> tuple[float, float]:
    run = rehearse(engine.steps, engine.limits, each, engine.front_end_seconds)
    return run.most_sequences, run.most_kv_tokens


def _ends(engine: EngineCapacity, error: float) -> Iterator[EngineCapacity]:
    """The engine as it is, and at its pessimistic end."""
    yield engine
    yield replace(engine, steps=engine.steps.scaled(1 + error))


def _by_chance(load: Load) -> Load:
    """At the pessimistic end no router makes arrivals more regular: prompts that meet at an engine make TTFT's tail."""
    return replace(load, routed_over=1)


def _alone(engine: EngineCapacity, load: Load) -> Rehearsed:
    run = rehearse(engine.steps, engine.limits, load, engine.front_end_seconds)
    run.is_over = run.is_over and not _is_overrun(engine, load)
    return run


def _is_overrun(engine: EngineCapacity, load: Load) -> bool:
    """Whether more comes than can ever be served, though so few requests as are rehearsed do not show it yet.

    An engine that only prefills has no decode steps that would carry a prompt's parts: each takes a step of its own.
    """
    rate, steps = load.rate or 0.0, engine.steps
    part = steps.prefill_seconds_per_token + steps.overhead_seconds / engine.limits.token_budget
    if load.output_tokens <= 1:
        return rate * load.input_tokens * (1 - load.hit_ratio) * part > 1
    return rate > engine.full_rate(load) * (1 - rate * load.post_seconds)


def _split(one: EngineCapacity, other: EngineCapacity, first: Load, second: Load, transfer: Transfer) -> Rehearsed:
    """Both legs, each on its engine: the first token comes with the prompt computed, handed over and decoded once."""
    prefill, decode = _alone(one, first), _alone(replace(other, front_end_seconds=0.0), second)
    rest = transfer.wire_seconds + (weighted_mean(decode.ttfts) or 0.0)
    both = replace(decode)
    both.ttfts = [(ttft + rest, times) for ttft, times in prefill.ttfts]
    both.is_over = prefill.is_over and decode.is_over
    return both


def _outlook(prefill: int, decode: int, objectives: Sequence[Objective], best: Rehearsed, worst: Rehearsed) -> Outlook:
    p95, p99 = weighted_percentiles(best.ttfts, [0.95])[0], weighted_percentiles(best.gaps, [0.99])[0]
    mean = weighted_mean(best.ttfts)
    return Outlook(
        prefill,
        decode,
        mean,
        p95,
        p99,
        strain(best, objectives),
        strain(worst, objectives),
        _overshoot(best, objectives),
    )


def strain(run: Rehearsed, objectives: Sequence[Objective]) -> float:
    """The worst objective's share of misses over what it allows; 1: just kept. Without objectives 0."""
    if not run.is_over:
        return float("inf")
    found = [
        (weighted_share_over(_values(run, o), o.threshold_seconds) or 0.0) / (1 - o.objective_ratio) for o in objectives
    ]
    return max(found, default=0.0)


def _overshoot(run: Rehearsed, objectives: Sequence[Objective]) -> float:
    found = [
        (weighted_percentiles(_values(run, o), [o.objective_ratio])[0] or 0.0) / o.threshold_seconds for o in objectives
    ]
    return max(found, default=0.0)


def _values(run: Rehearsed, objective: Objective) -> Weighted:
    values: dict[Signal, Weighted] = {"ttft": run.ttfts, "itl": run.gaps, "tpot": run.tpots}
    return values[objective.signal]
