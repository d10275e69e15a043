"""The chat canary: one short streamed chat completion at temperature 0, measured as a user would feel it."""

from typing import Literal

from pydantic import Field

from probes.canary.short_text import ShortTextCanary
from probes.canary.visit import CHAT_PATH, Visit, message, streamed
from probes.canary.visit import REQUEST_ID_PREFIX as REQUEST_ID_PREFIX  # noqa: PLC0414 - others know it from here
from probes.sample import ProbeResult
from probes.units import Seconds


class ChatCanary(ShortTextCanary):
    """A short streamed chat completion, measured as a user would feel it."""

    kind: Literal["chat"] = "chat"
    interval_seconds: Seconds = Field(30, description="Planned time between two canaries on one target, seconds.")


async def run(visit: Visit) -> ProbeResult:
    """One chat completion."""
    task = visit.task
    return (await visit.ask(CHAT_PATH, message(task.prompt) | streamed(task.max_tokens))).result()
