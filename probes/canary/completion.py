"""The completion canary: one short streamed plain completion; no chat template, no parser between engine and user."""

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from probes.canary.item import CanaryItem, Cost, text_tokens
from probes.canary.task import ProbeTask
from probes.canary.visit import COMPLETION_PATH, Visit, streamed
from probes.sample import ProbeResult
from probes.units import Seconds


class CompletionCanary(CanaryItem):
    """A short streamed plain completion: beside chat it tells a fault of the chat path from one of the engine."""

    is_dear: ClassVar[bool] = False

    kind: Literal["completion"] = "completion"
    interval_seconds: Seconds = Field(60, description="Planned time between two canaries on one target, seconds.")
    prompt: str = Field("One, two, three,", min_length=1, description="What is to be continued.")
    max_tokens: int = Field(16, ge=2, le=512, description="Tokens asked for; 2 is the least that has a TPOT.")

    def cost(self) -> Cost:
        """The prompt is always the same: a prefix cache holds it after the first time."""
        return Cost(1, text_tokens(self.prompt), 0, self.max_tokens)

    def fill(self, task: ProbeTask) -> ProbeTask:
        """The prompt, and exactly so many tokens."""
        return replace(CanaryItem.fill(self, task), prompt=self.prompt, max_tokens=self.max_tokens)


async def run(visit: Visit) -> ProbeResult:
    """One plain completion."""
    task = visit.task
    return (await visit.ask(COMPLETION_PATH, {"prompt": task.prompt} | streamed(task.max_tokens))).result()
