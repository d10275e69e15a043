"""What the canaries that ask for one short text have in common: the same prompt each time, and few tokens."""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from probes.canary.item import CanaryItem, Cost, text_tokens
from probes.canary.task import ProbeTask


class ShortTextCanary(CanaryItem):
    """One short text: cheap enough that pressure on users does not stop it."""

    is_dear: ClassVar[bool] = False

    prompt: str = Field("Count from one to sixteen in words.", min_length=1, description="What is asked.")
    max_tokens: int = Field(16, ge=2, le=512, description="Tokens asked for; 2 is the least that has a TPOT.")

    def cost(self) -> Cost:
        """The prompt is always the same: a prefix cache holds it after the first time."""
        return Cost(1, text_tokens(self.prompt), 0, self.max_tokens)

    def fill(self, task: ProbeTask) -> ProbeTask:
        """The prompt, and so many tokens: exactly, where the API has a word for that, else at most."""
        return replace(super().fill(task), prompt=self.prompt, max_tokens=self.max_tokens)
