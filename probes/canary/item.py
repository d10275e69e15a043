"""What the config says about a canary of any kind, and what one run of it costs."""

from dataclasses import dataclass, replace
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from probes.canary.task import ProbeKind, ProbeTask
from probes.units import Seconds

CHARACTERS_PER_TOKEN = 4  # a common rule of thumb for English text; only estimates are made from it


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run asks of an engine, at most; estimates, as only the server knows its tokens.

    `fresh_prompt_tokens` are those that no cache can hold: they are prefilled, and stored, each time.
    """

    requests: int = 1
    prompt_tokens: int = 0
    fresh_prompt_tokens: int = 0
    output_tokens: int = 0

    @property
    def tokens(self) -> int:
        """What counts against a budget."""
        return self.prompt_tokens + self.output_tokens


class CanaryItem(BaseModel):
    """One entry of `canaries`. Unknown keys are refused, values cannot change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # A dear kind is left out when users are pressed for what it would take.
    is_dear: ClassVar[bool] = True

    kind: ProbeKind
    interval_seconds: Seconds = Field(300, description="Planned time between two canaries on one target, seconds.")
    targets: list[str] = Field(["*"], description="Target names, or * for every vLLM target.")
    ranks: bool = Field(
        default=False, description="Asks one data-parallel rank after the other (X-data-parallel-rank), one a run."
    )
    adapters: bool = Field(
        default=False, description="Asks the model and each of its LoRA adapters in /v1/models in turn, one a run."
    )
    connect_timeout_seconds: Seconds = Field(3, description="Longest wait for a connection, seconds.")
    first_token_timeout_seconds: Seconds = Field(20, description="Longest wait for the first token, seconds.")
    stall_timeout_seconds: Seconds = Field(10, description="Longest gap between two tokens, seconds.")
    total_timeout_seconds: Seconds = Field(60, description="Longest whole run, seconds.")

    def cost(self) -> Cost:
        """What one run costs at most."""
        return Cost()

    def fill(self, task: ProbeTask) -> ProbeTask:
        """The task with what this canary asks when it is its turn for the `task.turn`-th time."""
        return replace(
            task,
            kind=self.kind,
            adapter_turn=task.turn if self.adapters else None,
            connect_timeout_seconds=self.connect_timeout_seconds,
            first_token_timeout_seconds=self.first_token_timeout_seconds,
            stall_timeout_seconds=self.stall_timeout_seconds,
            total_timeout_seconds=self.total_timeout_seconds,
        )


def whose_turn(turn: int, choices: int) -> int:
    """Which of so many choices is taken: one after the other, and each round begins with the next one, so that what
    else takes turns (the adapters of a model) meets all of them.
    """
    return (turn + turn // choices) % choices


def text_tokens(text: str) -> int:
    """About how many tokens a text is."""
    return max(1, len(text) // CHARACTERS_PER_TOKEN)
