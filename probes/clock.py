"""Time as an argument: the one protocol through which anything learns what time it is."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """What the shell asks for the time; the core is given `now_seconds` instead."""

    def now_seconds(self) -> float:
        """Unix time in seconds, for stamps."""
        ...

    def monotonic_seconds(self) -> float:
        """Seconds from an arbitrary start that never go backwards, for durations."""
        ...

    def real_seconds(self, seconds: float) -> float:
        """How long the machine takes for so many seconds of this clock (timeouts, job intervals)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds of this clock."""
        ...


class SystemClock:
    """The machine's own time."""

    def now_seconds(self) -> float:
        return time.time()

    def monotonic_seconds(self) -> float:
        return time.perf_counter()

    def real_seconds(self, seconds: float) -> float:
        return seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class ScaledClock:
    """Time that runs `speed` times as fast as the machine's, from `epoch_seconds` on.

    `epoch_seconds` (unix) is both the machine's time and this clock's at the common start, so that two processes that
    are given the same epoch and speed agree on the time.
    """

    speed: float
    epoch_seconds: float
    _perf_at_epoch: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_perf_at_epoch", time.perf_counter() - (time.time() - self.epoch_seconds))

    def now_seconds(self) -> float:
        return self.epoch_seconds + self.monotonic_seconds()

    def monotonic_seconds(self) -> float:
        return (time.perf_counter() - self._perf_at_epoch) * self.speed

    def real_seconds(self, seconds: float) -> float:
        return seconds / self.speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.speed)
