"""The same engines put together otherwise: each doing all of it, or some prefilling for others that decode."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agent.advice.capacity import EngineCapacity, Objective
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
    pessimistic end; `meets_slo` is whether the pessimistic end keeps all.
    """

    prefill: int
    decode: int
    ttft_mean_seconds: float | None
    ttft_p95_seconds: float | None
    itl_p99_seconds: float | None
    strain: float
    pessimistic_strain: float

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
    rate = load.rate or 0.0
    each = replace(load, concurrency=None, rate=rate / replicas, routed_over=replicas)
    error = engine.error_ratio(*_batch(engine, each))
    found = [_outlook(0, replicas, objectives, *(_alone(at, each) for at in _ends(engine, error)))]
    for prefill in range(1, replicas):
        decode = replicas - prefill
        first = replace(each, rate=rate / prefill, output_tokens=1.0, routed_over=prefill)
        second = replace(
            each, rate=rate / decode, hit_ratio=1.0, post_seconds=transfer.post_seconds, routed_over=decode
        )
        runs = [_split(at, first, second, transfer) for at in _ends(engine, error)]
        found.append(_outlook(prefill, decode, objectives, *runs))
    return found


def _batch(engine: EngineCapacity, each: Load) -> tuple[float, float]:
    run = rehearse(engine.steps, engine.limits, each, engine.front_end_seconds)
    return run.most_sequences, run.most_kv_tokens


def _ends(engine: EngineCapacity, error: float) -> Iterator[EngineCapacity]:
    """The engine as it is, and at its pessimistic end."""
    yield engine
    yield replace(engine, steps=engine.steps.scaled(1 + error))


def _alone(engine: EngineCapacity, load: Load) -> Rehearsed:
    return rehearse(engine.steps, engine.limits, load, engine.front_end_seconds)


def _split(engine: EngineCapacity, first: Load, second: Load, transfer: Transfer) -> Rehearsed:
    """Both legs: the first token comes when the prompt is computed, handed over and decoded once."""
    prefill, decode = _alone(engine, first), rehearse(engine.steps, engine.limits, second, 0.0)
    rest = transfer.wire_seconds + (weighted_mean(decode.ttfts) or 0.0)
    both = replace(decode)
    both.ttfts = [(ttft + rest, times) for ttft, times in prefill.ttfts]
    both.is_over = prefill.is_over and decode.is_over
    return both


def _outlook(prefill: int, decode: int, objectives: Sequence[Objective], best: Rehearsed, worst: Rehearsed) -> Outlook:
    p95, p99 = weighted_percentiles(best.ttfts, [0.95])[0], weighted_percentiles(best.gaps, [0.99])[0]
    mean = weighted_mean(best.ttfts)
    return Outlook(prefill, decode, mean, p95, p99, _strain(best, objectives), _strain(worst, objectives))


def _strain(run: Rehearsed, objectives: Sequence[Objective]) -> float:
    if not run.is_over:
        return float("inf")
    values: dict[str, Weighted] = {"ttft": run.ttfts, "itl": run.gaps, "tpot": run.tpots}
    found = [
        (weighted_share_over(values[o.signal], o.threshold_seconds) or 0.0) / (1 - o.objective_ratio)
        for o in objectives
    ]
    return max(found, default=0.0)
