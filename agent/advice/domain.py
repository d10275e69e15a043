"""Where the step-time model holds: what it has seen, what it must refuse, and what it should be careful with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from agent.advice.engine_facts import SPECULATION
from agent.advice.rehearsal import Load
from agent.advice.step_model import StepModel
from agent.advice.step_samples import StepSample
from agent.advice.traffic import Traffic

LARGEST_ERROR_RATIO = 0.06  # of the median stretch: a law that misses more is another law
LARGEST_BIAS_RATIO = 0.06  # of one kind of load: then time is not linear in what was counted
LEAST_IN_CELL = 4
LONGEST_INPUT_TOKENS = 32_768  # facts/h200.md: beyond it attention makes every prompt token dearer
FAR = 2.0  # times the largest batch that was seen: said, and the interval widens
MUCH_REUSE = 0.3
OTHER_CACHES = {  # parts of model names: what they read is not usage x blocks x block size, or their base moves
    "gpt-oss": "sliding-window layers read less KV than is resident",
    "gemma": "sliding-window layers read less KV than is resident",
    "mistral-7b-v0.1": "sliding-window layers read less KV than is resident",
    "deepseek": "latent attention (MLA) and experts: neither KV reads nor the step's base are as assumed",
    "kimi": "latent attention (MLA) and experts: neither KV reads nor the step's base are as assumed",
    "mixtral": "a mixture of experts: the step's base grows with the experts that wake",
    "-moe": "a mixture of experts: the step's base grows with the experts that wake",
    "-a3b": "a mixture of experts: the step's base grows with the experts that wake",
    "-a22b": "a mixture of experts: the step's base grows with the experts that wake",
    "mamba": "state-space layers hold no KV",
    "jamba": "state-space layers hold no KV",
    "nemotron-h": "state-space layers hold no KV",
}


@dataclass(frozen=True, slots=True)
class Domain:
    """What was seen, per step (sequences, resident KV tokens) and per request (prompt tokens): smallest and largest.

    `refusals` are reasons why the model says nothing at all; `cautions` why it says nothing beyond what was seen;
    `warnings` what a reader should know.
    """

    sequences: tuple[float, float]
    kv_tokens: tuple[float, float]
    input_tokens: tuple[float, float] | None
    refusals: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def refusals_of(self, load: Load, sequences: float) -> list[str]:
        """Why this load, with so many requests running at once, gets no answer; empty where it gets one."""
        found = list(self.refusals)
        if load.input_tokens > LONGEST_INPUT_TOKENS:
            found.append(f"prompts of {load.input_tokens:,.0f} tokens: beyond 32k every prompt token becomes dearer")
        if self.cautions and sequences > 1.25 * self.sequences[1]:
            found += [f"beyond the {self.sequences[1]:.0f} sequences that were seen: {why}" for why in self.cautions]
        return found

    def warnings_of(self, load: Load, sequences: float) -> list[str]:
        """What to know about an answer for this load."""
        found = [*self.warnings, *self.cautions]
        if sequences > FAR * self.sequences[1]:
            times = sequences / self.sequences[1]
            found.append(f"{sequences:.0f} sequences are {times:.1f} times the largest batch that was seen")
        seen = self.input_tokens
        if seen is not None and not 0.5 * seen[0] <= load.input_tokens <= 2 * seen[1]:
            found.append(f"prompts of {load.input_tokens:,.0f} tokens: {seen[0]:,.0f} to {seen[1]:,.0f} were seen")
        return found


def domain_of(
    samples: Sequence[StepSample],
    model: StepModel,
    traffic: Traffic,
    name: str,
    said: Sequence[str] = (),
    cautions: Sequence[str] = (),
) -> Domain:
    """The domain of a model fitted on these stretches. `said` (refusals) and `cautions` are what else is known of its
    engines, such as from their arguments.
    """
    sequences = [sample.decoded_tokens / sample.steps for sample in samples]
    kv = [sample.kv_token_steps / sample.steps for sample in samples]
    short, long = traffic.shortest_input_tokens, traffic.longest_input_tokens
    return Domain(
        (min(sequences), max(sequences)),
        (min(kv), max(kv)),
        None if short is None or long is None else (short, long),
        tuple(_refusals(samples, model, traffic, said)),
        tuple(dict.fromkeys((*_cautions(name), *cautions))),
        tuple(_warnings(model, traffic)),
    )


def _refusals(samples: Sequence[StepSample], model: StepModel, traffic: Traffic, said: Sequence[str]) -> Iterator[str]:
    yield from said
    if traffic.drafts and SPECULATION not in said:
        yield SPECULATION
    if model.error_ratio > LARGEST_ERROR_RATIO:
        yield (
            f"the law misses the median stretch by {100 * model.error_ratio:.0f} %: something else takes time "
            "(pipeline or expert parallelism, idle moments, another process on the GPU, throttling)"
        )
    bias = _largest_bias(samples, model)
    if bias > LARGEST_BIAS_RATIO:
        yield (
            f"step time is not linear in the load (one kind of load is off by {100 * bias:.0f} %): experts that wake "
            "with the batch, a hybrid or sliding-window cache, or prompts whose attention grows"
        )
    if (traffic.longest_input_tokens or 0) > LONGEST_INPUT_TOKENS:
        yield "prompts beyond 32k tokens: every prompt token becomes dearer with its context"


def _largest_bias(samples: Sequence[StepSample], model: StepModel) -> float:
    """The largest median error, with its sign, of stretches of one kind of load (a doubling of the batch)."""
    cells: dict[int, list[float]] = {}
    for sample in samples:
        error = sample.seconds / (model.seconds(*(x / sample.steps for x in sample.row[1:])) * sample.steps) - 1
        cells.setdefault(int(sample.decoded_tokens / sample.steps).bit_length(), []).append(error)
    return max((abs(median(errors)) for errors in cells.values() if len(errors) >= LEAST_IN_CELL), default=0.0)


def _cautions(name: str) -> Iterator[str]:
    lowered = name.lower()
    yield from dict.fromkeys(why for part, why in OTHER_CACHES.items() if part in lowered)


def _warnings(model: StepModel, traffic: Traffic) -> Iterator[str]:
    if not model.is_split_known:
        yield "decode cost per sequence and per KV token cannot be told apart: only their sum at such lengths is known"
    if (traffic.hit_ratio or 0) - (traffic.received_ratio or 0) > MUCH_REUSE:
        yield "much of the prompts came from the prefix cache: blocks that several requests share are counted once"
    if traffic.preemptions:
        yield f"{traffic.preemptions:.0f} preemptions: preempted prompts are computed twice and counted once"
