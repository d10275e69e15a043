"""The completion canary: one short streamed plain completion; no chat template, no parser between engine and user."""

from typing import Literal

from pydantic import Field

from probes.canary.short_text import ShortTextCanary
from probes.canary.visit import COMPLETION_PATH, Visit, streamed
from probes.sample import ProbeResult
from probes.units import Seconds


class CompletionCanary(ShortTextCanary):
    """A short streamed plain completion: beside chat it tells a fault of the chat path from one of the engine."""

    kind: Literal["completion"] = "completion"
    interval_seconds: Seconds = Field(60, description="Planned time between two canaries on one target, seconds.")
    prompt: str = Field("One, two, three,", min_length=1, description="What is to be continued.")


async def run(visit: Visit) -> ProbeResult:
    """One plain completion."""
    task = visit.task
    return (await visit.ask(COMPLETION_PATH, {"prompt": task.prompt} | streamed(task.max_tokens))).result()
