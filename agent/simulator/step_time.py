"""How long one engine step takes: laws of one form, so that advice can be judged on plants it does not assume."""

from dataclasses import dataclass
from random import Random
from typing import Protocol

STEP_OVERHEAD_SECONDS = 4.66e-3  # facts/h200.md: T0, least squares over 62 windows of 3 s, 8B on one H200
PREFILL_SECONDS_PER_TOKEN = 25.1e-6  # facts/h200.md: c_p, same fit
DECODE_SECONDS_PER_KV_TOKEN = 30.6e-9  # facts/h200.md: c_k, same fit
DECODE_SECONDS_PER_SEQUENCE = 0.0  # facts/h200.md: c_d, same fit
FRONT_END_SECONDS = 18e-3  # facts/h200.md: measured TTFT 229 ms - (T0 + c_p·8192) at concurrency 1


class StepTime(Protocol):
    """A law of step time.

    A step computes `prefill_tokens` of prompts, whose queries see `prefill_context` tokens in all (the sum over the
    chunk's tokens of the tokens before each), and decodes `sequences` sequences, while `kv_tokens` are resident in all.
    """

    def seconds(self, prefill_tokens: int, prefill_context: float, sequences: int, kv_tokens: int) -> float:
        """How long the step lasts."""
        ...

    def decode_line(self, sequences: int, kv_tokens: int) -> tuple[float, float] | None:
        """Duration of the next decode-only step, and by how much each further one is longer; None if it is no line."""
        ...


@dataclass(frozen=True, slots=True)
class LinearStepTime:
    """T0 + c_p·prefill + c_k·resident KV + c_d·sequences: what the measured H200 does."""

    overhead_seconds: float = STEP_OVERHEAD_SECONDS
    prefill_seconds_per_token: float = PREFILL_SECONDS_PER_TOKEN
    decode_seconds_per_kv_token: float = DECODE_SECONDS_PER_KV_TOKEN
    decode_seconds_per_sequence: float = DECODE_SECONDS_PER_SEQUENCE

    def seconds(self, prefill_tokens: int, prefill_context: float, sequences: int, kv_tokens: int) -> float:  # noqa: ARG002 - this law does not look at the context
        return (
            self.overhead_seconds
            + self.prefill_seconds_per_token * prefill_tokens
            + self.decode_seconds_per_kv_token * kv_tokens
            + self.decode_seconds_per_sequence * sequences
        )

    def decode_line(self, sequences: int, kv_tokens: int) -> tuple[float, float] | None:
        """Every step adds one resident token a sequence."""
        first = self.seconds(0, 0.0, sequences, kv_tokens)
        return first, self.decode_seconds_per_kv_token * sequences


@dataclass(frozen=True, slots=True)
class QuadraticStepTime:
    """Attention that grows with the context of every prompt token: what long prompts do.

    The extra cost is taken such that a 32k prompt costs twice its linear time, a made-up but usual proportion.
    """

    base: LinearStepTime = LinearStepTime()
    prefill_seconds_per_token_pair: float = PREFILL_SECONDS_PER_TOKEN / 16_384

    def seconds(self, prefill_tokens: int, prefill_context: float, sequences: int, kv_tokens: int) -> float:
        linear = self.base.seconds(prefill_tokens, prefill_context, sequences, kv_tokens)
        return linear + self.prefill_seconds_per_token_pair * prefill_context

    def decode_line(self, sequences: int, kv_tokens: int) -> tuple[float, float] | None:
        return self.base.decode_line(sequences, kv_tokens)


@dataclass(frozen=True, slots=True)
class MoeStepTime:
    """T0 that rises with the tokens in the step: each wakes `chosen` of `experts`, and woken experts must be read.

    Made up in the proportions of a 128-expert model: a quarter of T0 is there anyhow, the rest is reading experts.
    """

    base: LinearStepTime = LinearStepTime(overhead_seconds=STEP_OVERHEAD_SECONDS / 4)
    experts: int = 128
    chosen: int = 4
    all_experts_seconds: float = 3 * STEP_OVERHEAD_SECONDS

    def seconds(self, prefill_tokens: int, prefill_context: float, sequences: int, kv_tokens: int) -> float:
        woken = 1 - (1 - self.chosen / self.experts) ** (prefill_tokens + sequences)
        return (
            self.base.seconds(prefill_tokens, prefill_context, sequences, kv_tokens) + self.all_experts_seconds * woken
        )

    def decode_line(self, sequences: int, kv_tokens: int) -> tuple[float, float] | None:
        return self.seconds(0, 0.0, sequences, kv_tokens), self.base.decode_seconds_per_kv_token * sequences


@dataclass(frozen=True, slots=True)
class TensorParallelStepTime:
    """The work divided by `gpus`, and two all-reduces a layer: a fixed latency each, and time per token sent.

    Latency 10 µs over 64 all-reduces; 0.75 of a hidden state of 8 KiB a token at 400 GB/s: made up, of NVLink's order.
    """

    base: LinearStepTime = LinearStepTime()
    gpus: int = 2
    fixed_seconds: float = 64 * 10e-6
    seconds_per_token: float = 64 * 0.75 * 8192 / 400e9

    def seconds(self, prefill_tokens: int, prefill_context: float, sequences: int, kv_tokens: int) -> float:
        work = self.base.seconds(prefill_tokens, prefill_context, sequences, kv_tokens) / self.gpus
        return work + self.fixed_seconds + self.seconds_per_token * (prefill_tokens + sequences)

    def decode_line(self, sequences: int, kv_tokens: int) -> tuple[float, float] | None:
        return self.seconds(0, 0.0, sequences, kv_tokens), self.base.decode_seconds_per_kv_token * sequences / self.gpus


@dataclass(frozen=True, slots=True)
class HybridStepTime:
    """Sliding windows in a part of the layers: there a sequence's KV is read up to the window only (gpt-oss's kind)."""

    base: LinearStepTime = LinearStepTime()
    window_tokens: int = 1024
    windowed_ratio: float = 0.5

    def seconds(self, prefill_tokens: int, prefill_context: float, sequences: int, kv_tokens: int) -> float:
        windowed = min(kv_tokens, self.window_tokens * max(sequences, 1))
        read = (1 - self.windowed_ratio) * kv_tokens + self.windowed_ratio * windowed
        rest = self.base.seconds(prefill_tokens, prefill_context, sequences, 0)
        return rest + self.base.decode_seconds_per_kv_token * read

    def decode_line(self, sequences: int, kv_tokens: int) -> tuple[float, float] | None:
        """A line once all windows are full, on average; no line before."""
        if kv_tokens < self.window_tokens * sequences:
            return None
        slope = self.base.decode_seconds_per_kv_token * (1 - self.windowed_ratio) * sequences
        return self.seconds(0, 0.0, sequences, kv_tokens), slope


@dataclass(frozen=True, slots=True)
class JitteredStepTime:
    """Another law with noise: a few per cent either way, and now and then a step that takes several times as long.

    The mean stays that of the law. One step in 500 gets a Pareto tail (shape 2.5) from four times its length on.
    """

    base: StepTime
    rng: Random
    sigma_ratio: float = 0.03
    tail_ratio: float = 0.002
    tail_factor: float = 4.0

    def seconds(self, prefill_tokens: int, prefill_context: float, sequences: int, kv_tokens: int) -> float:
        mean = self.base.seconds(prefill_tokens, prefill_context, sequences, kv_tokens)
        share_in_tail = self.tail_ratio * self.tail_factor * 2.5 / 1.5
        if self.rng.random() < self.tail_ratio:
            return mean * self.tail_factor * self.rng.paretovariate(2.5)
        usual = (1 - share_in_tail) / (1 - self.tail_ratio)
        return mean * usual * max(0.5, self.rng.gauss(1, self.sigma_ratio))

    def decode_line(self, sequences: int, kv_tokens: int) -> tuple[float, float] | None:  # noqa: ARG002 - noise is no line
        return None
