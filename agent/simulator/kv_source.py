"""Where a prompt's KV can come from besides this engine: a prefill engine, or a cache tier beside it."""

from dataclasses import dataclass
from typing import Protocol

from agent.simulator.ask import Sequence


@dataclass(frozen=True, slots=True)
class Load:
    """KV on its way in: so many tokens beyond the local hit, complete at `ready_at_seconds`.

    While the transfer is posted (`post_seconds`) the engine's step stands still.
    """

    tokens: int
    ready_at_seconds: float
    post_seconds: float = 0.0


class KvSource(Protocol):
    """A connector as the scheduler sees it."""

    def load(self, sequence: Sequence, local_tokens: int, now_seconds: float) -> Load | None:
        """What can be loaded beyond `local_tokens`; None when there is nothing."""
        ...

    def store(self, sequence: Sequence, now_seconds: float) -> None:
        """The prompt is computed and may be kept."""
        ...
