"""How long one engine step takes: laws of one form, so that advice can be judged on plants it does not assume."""

from dataclasses import dataclass
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
