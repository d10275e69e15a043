"""The responses canary: one short streamed answer of the Responses API, which stores nothing."""

from typing import Literal

from pydantic import Field

from probes.canary.short_text import ShortTextCanary
from probes.canary.visit import RESPONSES_PATH, Visit
from probes.sample import ProbeResult
from probes.units import Seconds


class ResponsesCanary(ShortTextCanary):
    """A short streamed answer of the Responses API, for services whose users speak it."""

    kind: Literal["responses"] = "responses"
    interval_seconds: Seconds = Field(60, description="Planned time between two canaries on one target, seconds.")


async def run(visit: Visit) -> ProbeResult:
    """One answer, kept nowhere."""
    task = visit.task
    body = {
        "input": task.prompt, "stream": True, "store": False, "temperature": 0, "max_output_tokens": task.max_tokens
    }  # fmt: skip
    return (await visit.ask(RESPONSES_PATH, body)).result()
