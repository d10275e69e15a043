"""Things that are told elsewhere one after the other, each tried again until it is taken or refused for good."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, Literal, TypeVar

from probes.clock import Clock

MAX_WAITING = 1000
"""Kept while nobody takes them; older ones are dropped, and that is told."""

RETRY_SECONDS = (1.0, 5.0, 30.0)  # then always the last
GONE = (400, 401, 403, 404, 405, 409, 410, 413, 415, 422)  # the same again would be refused again
Outcome = Literal["ok", "refused", "failed"]
Thing = TypeVar("Thing")


class InOrder(Generic[Thing]):
    """`post` tells one thing; `delivered` hears of every attempt, under the output's name."""

    def __init__(
        self,
        output: str,
        post: Callable[[Thing], Awaitable[Outcome]],
        clock: Clock,
        delivered: Callable[[str, str], None],
    ) -> None:
        self._output, self._post, self._clock, self._delivered = output, post, clock, delivered
        self._waiting: deque[Thing] = deque(maxlen=MAX_WAITING)
        self._news = asyncio.Event()

    def put(self, thing: Thing) -> None:
        """One more, after all that wait; never waits itself."""
        if len(self._waiting) == MAX_WAITING:
            self._delivered(self._output, "dropped")
        self._waiting.append(thing)
        self._news.set()

    async def run(self) -> None:
        """Tell what waits, until cancelled."""
        failures = 0
        while True:
            if not self._waiting:
                self._news.clear()
                await self._news.wait()
            thing = self._waiting[0]
            outcome = await self._post(thing)
            self._delivered(self._output, outcome)
            if outcome == "failed":
                failures += 1
                await self._clock.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS)) - 1])
                continue
            failures = 0
            if self._waiting and self._waiting[0] is thing:
                self._waiting.popleft()


def outcome_of(status: int) -> Outcome:
    """What an HTTP status says about trying again."""
    if 200 <= status < 300:
        return "ok"
    return "refused" if status in GONE else "failed"
