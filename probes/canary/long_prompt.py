"""The long-prompt canary: the prefill path, with a prompt that no cache has seen."""

from dataclasses import replace
from typing import Literal

from pydantic import Field

from probes.canary.filler import filler, fresh_salt
from probes.canary.item import CanaryItem, Cost
from probes.canary.task import ProbeTask
from probes.canary.visit import CHAT_PATH, Visit, message, streamed
from probes.sample import ProbeResult
from probes.units import Seconds

OUTPUT_TOKENS = 2


class LongPromptCanary(CanaryItem):
    """A long prompt that no cache has seen: the prefill path. Users' streams stall while it is prefilled."""

    kind: Literal["long_prompt"] = "long_prompt"
    interval_seconds: Seconds = Field(3600, description="Planned time between two canaries on one target, seconds.")
    prompt_tokens: int = Field(4096, ge=64, le=262_144, description="About so many tokens of prompt.")

    def cost(self) -> Cost:
        """Everything is prefilled and stored anew."""
        return Cost(1, self.prompt_tokens, self.prompt_tokens, OUTPUT_TOKENS)

    def fill(self, task: ProbeTask) -> ProbeTask:
        """How long the prompt is."""
        return replace(
            CanaryItem.fill(self, task), prompt="", prompt_tokens=self.prompt_tokens, max_tokens=OUTPUT_TOKENS
        )


async def run(visit: Visit) -> ProbeResult:
    """One chat completion with a prompt of its own; `prefill_tokens_per_second` includes the queue and the network."""
    salt = fresh_salt()
    body = message(filler(visit.task.prompt_tokens, salt)) | {"cache_salt": salt} | streamed(visit.task.max_tokens)
    answered = await visit.ask(CHAT_PATH, body)
    ttft_seconds, prompt_tokens = answered.figures.ttft_seconds, answered.stream.prompt_tokens
    known = answered.fault is None and ttft_seconds and prompt_tokens
    rate = prompt_tokens / ttft_seconds if known and ttft_seconds and prompt_tokens else None
    return answered.result({"prefill_tokens_per_second": rate})
