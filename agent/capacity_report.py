"""`capacity`: the step-time model of one engine, fitted on one stretch of a recording, and what it predicts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.advice.capacity import (
    EngineCapacity,
    Limit,
    Objective,
    Prediction,
    Signal,
    max_concurrency,
    max_rate,
    predict,
)
from agent.advice.capacity_book import CapacityBook, Kind, Learned
from agent.advice.domain import Domain, domain_of
from agent.advice.engine_facts import WHERE, EngineFacts, engine_facts
from agent.advice.proven import Proven, proven_load
from agent.advice.rehearsal import Load
from agent.advice.scene import engine_of
from agent.advice.step_model import LEAST_SAMPLES, StepModel
from agent.advice.traffic import Traffic, traffic_of
from agent.sli.count import TargetFacts
from agent.stretch import EmptyStretchError, Stretch, names_in, read_stretch
from agent.windows import Increment
from probes.discovery.file import Found
from probes.engine_args import engine_args


@dataclass(frozen=True, slots=True)
class CapacityQuestion:
    """The load that is asked about, and what the pages do not tell. None: as observed, inferred, or not asked."""

    concurrency: int | None = None
    rate: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    spread_ratio: float = 0.0
    hit_ratio: float | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    objectives: Sequence[Objective] = ()
    thresholds: Sequence[tuple[Signal, float]] = ()


@dataclass(frozen=True, slots=True)
class Assumed:
    """A value that the prediction rests on, and where it comes from."""

    value: float | None
    source: str


@dataclass(frozen=True, slots=True)
class CapacityAnswer:
    """The model, where it holds, and what it says; `prediction` and the limits are None where `refusals` say why.

    `as_is` is the prediction with the token budget that the engine has, where another one is asked about.
    """

    target: str
    steps: StepModel
    kv_capacity_tokens: float
    at: tuple[float, float]
    domain: Domain
    assumed: Mapping[str, Assumed]
    refusals: Sequence[str]
    warnings: Sequence[str]
    proven: Proven
    prediction: Prediction | None = None
    as_is: Prediction | None = None
    rate_limit: Limit | None = None
    concurrency_limit: Limit | None = None


def capacity_report(recording: Path, stretch: Stretch, question: CapacityQuestion) -> CapacityAnswer:
    """The answer for the one engine target of the stretch.

    Raises RecordingError for a bad file, EmptyStretchError where the stretch holds no engine, more than one, or too
    little of a busy one to learn from.
    """
    target, increments, found = _engine_of(recording, stretch)
    learned = _learned(recording, increments)
    steps = learned.steps
    if steps is None:
        raise EmptyStretchError(f"{recording}: {_why_no_model(learned, target)}")
    traffic = traffic_of(increments)
    facts = engine_facts([_facts_of(found)], increments)
    engine, assumed = _engine(learned, steps, facts, question)
    load, lengths = _load(traffic, question)
    samples, name = learned.book.samples, increments[0].key.model
    domain = domain_of(samples, steps, traffic, name, facts.refusals, facts.cautions)
    proven = proven_load(increments, question.objectives)
    if load is None:
        nothing = ("no lengths: the stretch has no requests; give --input-tokens and --output-tokens",)
        return CapacityAnswer(
            target,
            steps,
            learned.kv_capacity_tokens,
            (domain.sequences[1], domain.kv_tokens[1]),
            domain,
            assumed,
            nothing,
            domain.warnings,
            proven,
        )
    return _answer(target, engine, learned, load, domain, {**assumed, **lengths}, proven, question)


def _overrun(engine: EngineCapacity, load: Load) -> Iterator[str]:
    if engine.is_overrun(load):
        yield f"{load.rate:g} requests/s are more than it can serve: a queue grows without end, and TTFT with it"


def _why_no_model(learned: Learned, target: str) -> str:
    found = learned.book.added
    if found < LEAST_SAMPLES:
        few = f"{found} stretches of about three seconds in which {target} is known to be busy"
        return f"only {few}; {LEAST_SAMPLES} are needed. Record under load, with a reading a second."
    return f"all {found} busy stretches of {target} are alike: the parts of a step cannot be told. Vary the load."


def _answer(
    target: str,
    engine: EngineCapacity,
    learned: Learned,
    load: Load,
    domain: Domain,
    assumed: Mapping[str, Assumed],
    proven: Proven,
    question: CapacityQuestion,
) -> CapacityAnswer:
    is_asked = load.concurrency is not None or load.rate is not None
    prediction = predict(engine, load, question.objectives, question.thresholds) if is_asked else None
    sequences = _sequences(engine, load, prediction, domain)
    context = load.input_tokens + load.output_tokens / 2
    refusals = domain.refusals_of(load, sequences)
    answer = CapacityAnswer(
        target,
        engine.steps,
        learned.kv_capacity_tokens,
        (sequences, sequences * context),
        domain,
        assumed,
        refusals,
        [*domain.warnings_of(load, sequences), *_overrun(engine, load)],
        proven,
    )
    if refusals:
        return answer
    as_is = None
    if question.max_num_batched_tokens is not None and is_asked:
        budget = int(assumed["current_max_num_batched_tokens"].value or 0)
        own = replace(engine, limits=replace(engine.limits, token_budget=budget))
        as_is = predict(own, load, question.objectives, question.thresholds)
    return replace(
        answer,
        prediction=prediction,
        as_is=as_is,
        rate_limit=max_rate(engine, load, question.objectives),
        concurrency_limit=max_concurrency(engine, load, question.objectives),
    )


def _facts_of(found: Found | None) -> TargetFacts | None:
    """What the recording tells of its target; None where it tells nothing."""
    if found is None:
        return None
    args, _ = engine_args(found.labels.get("engine_args", ""))
    return TargetFacts("", "", None, labels=found.labels, engine_args=args)


def _engine_of(recording: Path, stretch: Stretch) -> tuple[str, list[Increment], Found | None]:
    windows, recorded = read_stretch(recording, stretch)
    start = recorded.first_seconds if stretch.from_seconds is None else stretch.from_seconds
    end = recorded.last_seconds if stretch.to_seconds is None else stretch.to_seconds
    names = names_in(windows, recorded, stretch.target, start, end)
    increments = [i for i in windows.between(start, end, names) if i.key.source == "vllm"]
    engines = sorted({increment.key.target for increment in increments})
    if len(engines) != 1:
        told = (
            f"has {', '.join(engines)}; choose one with --target" if engines else "has no vLLM engine in this stretch"
        )
        raise EmptyStretchError(f"{recording}: {told}.")
    ordered = sorted(increments, key=lambda increment: increment.to_seconds)
    return engines[0], ordered, recorded.found.get(engines[0])


def _learned(recording: Path, increments: Sequence[Increment]) -> Learned:
    book = CapacityBook()
    book.take(increments, lambda key: Kind(key.model, "", ""))
    if not book.learned:
        raise EmptyStretchError(f"{recording}: the pages lack vllm:cache_config_info, the size of the KV cache.")
    return next(iter(book.learned.values()))


def _engine(
    learned: Learned, steps: StepModel, facts: EngineFacts, question: CapacityQuestion
) -> tuple[EngineCapacity, dict[str, Assumed]]:
    engine, told = engine_of(learned, steps, facts)
    source = told.words
    current = engine.limits.token_budget
    budget = question.max_num_batched_tokens or current
    sequences = question.max_num_seqs or engine.limits.max_sequences
    seqs_source = (
        "assumed: the least of vLLM's defaults (1024 on GPUs of 70 GiB and more)"
        if facts.max_sequences is None
        else f"said: {WHERE[facts.source]}"
    )
    front_end = learned.front_end_seconds(current)
    assumed = {
        "max_num_batched_tokens": Assumed(budget, "asked" if question.max_num_batched_tokens else source),
        "current_max_num_batched_tokens": Assumed(current, source),
        "max_num_seqs": Assumed(sequences, "asked" if question.max_num_seqs else seqs_source),
        "front_end_seconds": Assumed(
            front_end,
            "requests that had the engine to themselves"
            if front_end is not None
            else "no request had the engine to itself: taken as 0",
        ),
    }
    limits = replace(engine.limits, token_budget=budget, max_sequences=sequences)
    return replace(engine, limits=limits), assumed


def _load(traffic: Traffic, question: CapacityQuestion) -> tuple[Load | None, dict[str, Assumed]]:
    given = (question.input_tokens, question.output_tokens)
    lengths = (given[0] or traffic.input_tokens, given[1] or traffic.output_tokens)
    if lengths[0] is None or lengths[1] is None:
        return None, {}
    asked_or_seen = traffic.hit_ratio if question.hit_ratio is None else question.hit_ratio
    reuse = asked_or_seen or 0.0
    form = f", as {'whole prompts' if traffic.hits_are_whole else 'a part of every prompt'}" if reuse else ""
    source = (
        "the page does not tell: taken as none" if asked_or_seen is None
        else ("observed" if question.hit_ratio is None else "asked") + form
    )  # fmt: skip
    assumed = {
        "input_tokens": Assumed(lengths[0], "asked" if given[0] else "observed mean"),
        "output_tokens": Assumed(lengths[1], "asked" if given[1] else "observed mean"),
        "prefix_hit_ratio": Assumed(reuse, source),
    }
    spread, whole = question.spread_ratio, traffic.hits_are_whole
    return Load(lengths[0], lengths[1], question.concurrency, question.rate, spread, reuse, whole), assumed


def _sequences(engine: EngineCapacity, load: Load, prediction: Prediction | None, domain: Domain) -> float:
    """How many sequences decode at once: the users, or by Little's law; without a load, as many as were seen."""
    if load.concurrency is not None:
        return min(float(load.concurrency), engine.most_sequences(load))
    tpot = prediction.tpot_mean_seconds if prediction is not None else None
    if load.rate is not None and tpot is not None and tpot.value is not None:
        return min(load.rate * load.output_tokens * tpot.value, engine.most_sequences(load))
    return domain.sequences[1]
