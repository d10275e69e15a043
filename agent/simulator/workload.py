"""What clients want: a stream of requests, open (they come when they come) or closed (one ends, the next begins)."""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Protocol

from agent.simulator.arrivals import Arrivals
from agent.simulator.ask import Ask, FinishReason, Sequence
from agent.simulator.lengths import Lengths


class Workload(Protocol):
    """Requests in time order. `is_reactive` says that the end of one can bring the next."""

    is_reactive: bool

    def next_seconds(self, until_seconds: float) -> float:
        """When the next request comes, infinity when none does by `until_seconds`."""
        ...

    def take(self) -> Ask:
        """The request that was announced."""
        ...

    def ended(self, sequence: Sequence, now_seconds: float) -> None:
        """A request is over, in whatever way."""
        ...


@dataclass(frozen=True, slots=True)
class Prompts:
    """Requests of one kind: lengths, a system prompt that all share, and how long clients wait.

    `system_blocks` leading KV blocks are the same in every request; `systems` says how many such prompts there are.
    """

    prompt_tokens: Lengths
    output_tokens: Lengths
    system_blocks: int = 0
    systems: int = 1
    patience_seconds: float | None = None
    finish_reason: FinishReason = "length"

    def draw(self, name: str, rng: Random) -> Ask:
        """One request."""
        prompt, output = self.prompt_tokens.draw(rng), self.output_tokens.draw(rng)
        hashes: tuple[int, ...] = ()
        if self.system_blocks:
            base = rng.randrange(self.systems) * 1_000_000
            hashes = tuple(range(base, base + self.system_blocks))
        return Ask(
            name,
            prompt,
            output,
            hashes,
            patience_seconds=self.patience_seconds,
            finish_reason=self.finish_reason,
        )


class OpenLoop:
    """Arrivals that do not care how the service is doing. `prompts` gives the kind of request at a time."""

    is_reactive = False

    def __init__(
        self, arrivals: Arrivals, prompts: Callable[[float], Prompts], rng: Random, *, limit: int | None = None
    ) -> None:
        self.arrivals = arrivals
        self._prompts = prompts
        self._rng = rng
        self._limit = limit
        self._taken = 0

    def next_seconds(self, until_seconds: float) -> float:
        if self._limit is not None and self._taken >= self._limit:
            return inf
        return self.arrivals.next_seconds(until_seconds)

    def take(self) -> Ask:
        at_seconds = self.arrivals.take()
        self._taken += 1
        return self._prompts(at_seconds).draw(f"r{self._taken}", self._rng)

    def ended(self, sequence: Sequence, now_seconds: float) -> None:
        """An open loop does not listen."""


class ClosedLoop:
    """`concurrency` clients, each sending its next request once it has its answer: `vllm bench serve` at rate inf."""

    is_reactive = True

    def __init__(
        self,
        concurrency: int,
        requests: float,
        draw: Callable[[int], Ask],
        start_seconds: float,
        *,
        pause_seconds: float = 0.0,
    ) -> None:
        self._draw = draw
        self._left = requests
        self._pause_seconds = pause_seconds
        self._drawn = 0
        self._due: list[float] = []
        for _ in range(int(min(concurrency, requests))):
            heappush(self._due, start_seconds)
        self._left -= len(self._due)

    def next_seconds(self, until_seconds: float) -> float:
        return self._due[0] if self._due and self._due[0] <= until_seconds else inf

    def take(self) -> Ask:
        heappop(self._due)
        self._drawn += 1
        return self._draw(self._drawn - 1)

    def ended(self, sequence: Sequence, now_seconds: float) -> None:  # noqa: ARG002 - any end will do
        if self._left > 0:
            self._left -= 1
            heappush(self._due, now_seconds + self._pause_seconds)
