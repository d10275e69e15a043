"""What one engine can carry: a load rehearsed on its step-time model, between a pessimistic and an optimistic end."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from agent.advice.rehearsal import EngineLimits, Load, Rehearsed, rehearse
from agent.advice.step_model import StepModel
from agent.model import Figure
from agent.stats.weighted import Weighted, weighted_mean, weighted_percentiles, weighted_share_over

Signal = Literal["ttft", "itl", "tpot"]
Binding = Literal["ttft", "itl", "tpot", "kv", "seqs", "queue"]
Z = 1.96  # a 95 % interval
OUT_OF_STEP = 0.3  # users whose lengths differ fall out of step, and share more steps with others' prefill
NEARLY_FULL = 0.98  # of the rate at which an engine gives all it has: above it a queue never ends


@dataclass(frozen=True, slots=True)
class Objective:
    """At least `objective_ratio` of an engine's requests (of its gaps between tokens, for itl) take no longer."""

    signal: Signal
    threshold_seconds: float
    objective_ratio: float


@dataclass(frozen=True, slots=True)
class EngineCapacity:
    """Everything that a prediction needs. `front_end_seconds` is from sending a request to its queue in the engine.

    `prefill_error_ratio` is the half width of a prompt's time where that was measured apart from decoding; None where
    both are of one fit.
    """

    steps: StepModel
    limits: EngineLimits = field(default_factory=EngineLimits)
    front_end_seconds: float = 0.0
    prefill_error_ratio: float | None = None

    def error_ratio(self, sequences: float, kv_tokens: float) -> float:
        """Half width of the 95 % interval of a decode step's time, over that time."""
        return min(0.5, Z * self.steps.standard_error_ratio(0.0, sequences, kv_tokens) + self.steps.error_ratio)

    def most_sequences(self, load: Load) -> float:
        """How many requests of these lengths run at once at most."""
        kv = self.limits.kv_tokens
        fits = self.limits.max_sequences if kv is None else kv / (load.input_tokens + load.output_tokens / 2)
        return max(1.0, min(fits, self.limits.max_sequences))

    def full_rate(self, load: Load) -> float:
        """Requests a second that the engine serves with a queue that never ends.

        Each of n running requests takes `output_tokens` steps, in which n prompts are computed beside them.
        """
        n, output = self.most_sequences(load), load.output_tokens
        decode = self.steps.seconds(0.0, n, n * (load.input_tokens + output / 2))
        prompts = n * load.input_tokens * (1 - load.hit_ratio) * self.steps.prefill_seconds_per_token
        return n / (output * decode + prompts)

    def is_overrun(self, load: Load) -> bool:
        """Whether requests come faster than they can ever be served: then a queue grows without end."""
        return load.rate is not None and load.rate > self.full_rate(load)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What clients of one engine would see: of every figure the value, and the ends of its interval (low, high).

    `meets_slo` is True only if the pessimistic end keeps every objective, False if the value does not, None in between
    and without objectives. `binding` is the objective that breaks first.
    """

    itl_mean_seconds: Figure | None
    itl_p50_seconds: Figure | None
    itl_p95_seconds: Figure | None
    itl_p99_seconds: Figure | None
    tpot_mean_seconds: Figure | None
    ttft_mean_seconds: Figure | None
    ttft_p50_seconds: Figure | None
    ttft_p95_seconds: Figure | None
    ttft_p99_seconds: Figure | None
    over_threshold_ratio: Mapping[str, Figure | None]
    output_tokens_per_second: Figure | None
    requests_per_second: Figure | None
    meets_slo: bool | None
    binding: Binding | None


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest load that keeps every objective: `low` at the pessimistic end, `high` at the optimistic one.

    `binding` is what breaks beyond it. 0: no load keeps them.
    """

    value: float
    low: float
    high: float
    binding: Binding | None


def predict(
    engine: EngineCapacity,
    load: Load,
    objectives: Sequence[Objective] = (),
    thresholds: Sequence[tuple[Signal, float]] = (),
) -> Prediction:
    """What this load would feel like on one engine. Times are as the engine's front end sees them.

    Where more comes than can be served, first tokens come later and later: TTFT is unknown, and no promise is kept.
    """
    best = rehearse(engine.steps, engine.limits, load, engine.front_end_seconds)
    runs = [best, *_ends(engine, load, engine.error_ratio(best.most_sequences, best.most_kv_tokens))]
    broken = [_broken(run, objectives) for run in runs]
    meets = False if broken[0] else True if objectives and not any(broken) else None
    itl = _figures(runs, lambda run: run.gaps, (0.5, 0.95, 0.99))
    ttft = _figures(runs, lambda run: run.ttfts, (0.5, 0.95, 0.99))
    ttft = [_figure(runs, lambda run: weighted_mean(run.ttfts)), *ttft]
    if engine.is_overrun(load):
        broken, meets, ttft = ["queue"], False, [None, None, None, None]
    return Prediction(
        itl_mean_seconds=_figure(runs, lambda run: weighted_mean(run.gaps)),
        itl_p50_seconds=itl[0],
        itl_p95_seconds=itl[1],
        itl_p99_seconds=itl[2],
        tpot_mean_seconds=_figure(runs, lambda run: weighted_mean(run.tpots)),
        ttft_mean_seconds=ttft[0],
        ttft_p50_seconds=ttft[1],
        ttft_p95_seconds=ttft[2],
        ttft_p99_seconds=ttft[3],
        over_threshold_ratio={
            f"{signal}_seconds>{seconds:g}": None
            if signal == "ttft" and engine.is_overrun(load)
            else _figure(runs, _share(signal, seconds))
            for signal, seconds in thresholds
        },
        output_tokens_per_second=_figure(runs, lambda run: run.output_tokens / run.seconds if run.seconds else None),
        requests_per_second=_figure(runs, lambda run: run.requests / run.seconds if run.seconds else None),
        meets_slo=meets,
        binding=next((found for found in broken if found), None),
    )


def max_rate(engine: EngineCapacity, load: Load, objectives: Sequence[Objective] = ()) -> Limit:
    """Requests a second that one engine carries under these objectives; of the load, only its lengths are read."""

    def limit(steps: StepModel) -> tuple[float, Binding | None]:
        an_engine = replace(engine, steps=steps)
        full = NEARLY_FULL * an_engine.full_rate(load)
        return _largest(lambda rate: _judge(an_engine, replace(load, concurrency=None, rate=rate), objectives), full)

    def at(value: float) -> tuple[float, float]:
        """Sequences and KV tokens in the engine at that rate: its time is asked for there, not with a full batch."""
        run = rehearse(
            engine.steps, engine.limits, replace(load, concurrency=None, rate=value), engine.front_end_seconds
        )
        return run.most_sequences, run.most_kv_tokens

    return _limit(engine, load, limit, at)


def max_concurrency(engine: EngineCapacity, load: Load, objectives: Sequence[Objective] = ()) -> Limit:
    """Users of a closed loop (each sends its next request when it has its answer) that one engine carries."""
    most = int(engine.most_sequences(load))

    def limit(steps: StepModel) -> tuple[float, Binding | None]:
        an_engine = replace(engine, steps=steps)
        spread = load.spread_ratio or (OUT_OF_STEP if steps.overhead_seconds > engine.steps.overhead_seconds else 0.0)
        return _largest_whole(
            lambda users: _judge(
                an_engine, replace(load, concurrency=users, rate=None, spread_ratio=spread), objectives
            ),
            most,
        )

    full = engine.most_sequences(load)
    return _limit(engine, load, limit, lambda _: (full, full * (load.input_tokens + load.output_tokens / 2)))


def _limit(
    engine: EngineCapacity,
    load: Load,
    limit: Callable[[StepModel], tuple[float, Binding | None]],
    at: Callable[[float], tuple[float, float]],
) -> Limit:
    value, binding = limit(engine.steps)
    n = engine.most_sequences(load)
    error = engine.error_ratio(*at(value)) if value > 0 else engine.steps.error_ratio
    low, _ = limit(engine.steps.scaled(1 + error))
    high, _ = limit(engine.steps.scaled(1 - error))
    kv, fits = engine.limits.kv_tokens, engine.limits.max_sequences
    if binding is None:
        binding = "kv" if kv is not None and n < fits else "seqs"
    return Limit(value, min(low, value), max(high, value), binding)


def _judge(engine: EngineCapacity, load: Load, objectives: Sequence[Objective]) -> Binding | None:
    return _broken(rehearse(engine.steps, engine.limits, load, engine.front_end_seconds), objectives)


def _broken(run: Rehearsed, objectives: Iterable[Objective]) -> Binding | None:
    """The first objective that this run does not keep."""
    if not run.is_over:
        return "queue"
    for objective in objectives:
        share = _share(objective.signal, objective.threshold_seconds)(run)
        if share is not None and share > 1 - objective.objective_ratio:
            return objective.signal
    return None


def _largest(judge: Callable[[float], Binding | None], most: float) -> tuple[float, Binding | None]:
    """The largest load up to `most` that nothing breaks under, to one per cent of `most`, and what breaks above it."""
    binding = judge(most)
    if binding is None:
        return most, None
    low, high = 0.0, most
    for _ in range(7):
        middle = (low + high) / 2
        found = judge(middle)
        if found is None:
            low = middle
        else:
            high, binding = middle, found
    return low, binding


def _largest_whole(judge: Callable[[int], Binding | None], most: int) -> tuple[float, Binding | None]:
    """The same in whole numbers, from small loads up: large ones take long to rehearse."""
    low, high = 0, 1
    while (binding := judge(high)) is None:
        if high >= most:
            return float(high), None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        found = judge(middle)
        if found is None:
            low = middle
        else:
            high, binding = middle, found
    return float(low), binding


def _ends(engine: EngineCapacity, load: Load, error: float) -> list[Rehearsed]:
    """The optimistic end, the pessimistic one, and users out of step, where nobody says how lengths differ."""
    variants = [(1 - error, load), (1 + error, load)]
    if load.concurrency is not None and not load.spread_ratio:
        variants.append((1.0, replace(load, spread_ratio=OUT_OF_STEP)))
    return [
        rehearse(engine.steps.scaled(factor), engine.limits, variant, engine.front_end_seconds)
        for factor, variant in variants
    ]


def _share(signal: Signal, seconds: float) -> Callable[[Rehearsed], float | None]:
    def share(run: Rehearsed) -> float | None:
        values: dict[Signal, Weighted] = {"ttft": run.ttfts, "itl": run.gaps, "tpot": run.tpots}
        return weighted_share_over(values[signal], seconds)

    return share


def _figures(
    runs: Sequence[Rehearsed], values: Callable[[Rehearsed], Weighted], quantiles: Sequence[float]
) -> list[Figure | None]:
    found = [weighted_percentiles(values(run), quantiles) for run in runs]
    return [_of(column) for column in zip(*found, strict=True)]


def _figure(runs: Sequence[Rehearsed], figure: Callable[[Rehearsed], float | None]) -> Figure | None:
    return _of([figure(run) for run in runs])


def _of(found: Sequence[float | None]) -> Figure | None:
    """The first is the value, the others span its interval. `count` is 0: a prediction has no events."""
    known = [value for value in found if value is not None]
    if found[0] is None:
        return None
    return Figure(found[0], min(known), max(known), 0)
