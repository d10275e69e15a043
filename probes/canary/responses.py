"""The responses canary: one short streamed answer of the Responses API, which stores nothing."""

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from probes.canary.item import CanaryItem, Cost, text_tokens
from probes.canary.task import ProbeTask
from probes.canary.visit import RESPONSES_PATH, Visit
from probes.sample import ProbeResult
from probes.units import Seconds


class ResponsesCanary(CanaryItem):
    """A short streamed answer of the Responses API, for services whose users speak it."""

    is_dear: ClassVar[bool] = False

    kind: Literal["responses"] = "responses"
    interval_seconds: Seconds = Field(60, description="Planned time between two canaries on one target, seconds.")
    prompt: str = Field("Count from one to sixteen in words.", min_length=1, description="What is asked.")
    max_tokens: int = Field(16, ge=2, le=512, description="Tokens asked for; 2 is the least that has a TPOT.")

    def cost(self) -> Cost:
        """The prompt is always the same: a prefix cache holds it after the first time."""
        return Cost(1, text_tokens(self.prompt), 0, self.max_tokens)

    def fill(self, task: ProbeTask) -> ProbeTask:
        """The prompt, and at most so many tokens: this API has no word for exactly."""
        return replace(CanaryItem.fill(self, task), prompt=self.prompt, max_tokens=self.max_tokens)


async def run(visit: Visit) -> ProbeResult:
    """One answer, kept nowhere."""
    task = visit.task
    body = {
        "input": task.prompt, "stream": True, "store": False, "temperature": 0, "max_output_tokens": task.max_tokens
    }  # fmt: skip
    return (await visit.ask(RESPONSES_PATH, body)).result()
