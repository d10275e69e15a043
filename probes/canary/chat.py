"""The chat canary: one short streamed chat completion at temperature 0, measured as a user would feel it."""

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from probes.canary.item import CanaryItem, Cost, text_tokens
from probes.canary.task import ProbeTask
from probes.canary.visit import CHAT_PATH, Visit, message, streamed
from probes.canary.visit import REQUEST_ID_PREFIX as REQUEST_ID_PREFIX  # noqa: PLC0414 - others know it from here
from probes.sample import ProbeResult
from probes.units import Seconds


class ChatCanary(CanaryItem):
    """A short streamed chat completion, measured as a user would feel it."""

    is_dear: ClassVar[bool] = False

    kind: Literal["chat"] = "chat"
    interval_seconds: Seconds = Field(30, description="Planned time between two canaries on one target, seconds.")
    prompt: str = Field("Count from one to sixteen in words.", min_length=1, description="What is asked.")
    max_tokens: int = Field(16, ge=2, le=512, description="Tokens asked for; 2 is the least that has a TPOT.")

    def cost(self) -> Cost:
        """The prompt is always the same: a prefix cache holds it after the first time."""
        return Cost(1, text_tokens(self.prompt), 0, self.max_tokens)

    def fill(self, task: ProbeTask) -> ProbeTask:
        """The prompt, and exactly so many tokens."""
        return replace(CanaryItem.fill(self, task), prompt=self.prompt, max_tokens=self.max_tokens)


async def run(visit: Visit) -> ProbeResult:
    """One chat completion."""
    task = visit.task
    return (await visit.ask(CHAT_PATH, message(task.prompt) | streamed(task.max_tokens))).result()
