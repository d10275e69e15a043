"""The fleet in real (or scaled) time: a small loop that advances it to the clock's now, and wakes who waits."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from math import floor

from agent.simulator.ask import Ask, Sequence
from agent.simulator.fleet import Fleet
from agent.simulator.replica import Replica
from probes.clock import Clock

IDLE_TICK_SECONDS = 0.02  # real seconds between two looks when no client of ours waits for a token
SERVED_KEPT = 10_000  # requests whose truth can be asked for
SELECTOR_SECONDS = 0.001  # the resolution of epoll's timeout


class RealTime:
    """Advances the fleet, and tells waiting HTTP handlers when their sequence has something new."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self.fleet = fleet
        self.clock = clock
        self._watched: dict[str, tuple[Replica, Sequence, asyncio.Event, int]] = {}
        self.served: deque[Sequence] = deque(maxlen=SERVED_KEPT)
        self._nudge = asyncio.Event()
        self.on_end: Callable[[Sequence], None] | None = None

    def replica(self, index: int) -> Replica | None:
        """The replica at that place while it answers."""
        for replica in self.fleet.replicas:
            if replica.index == index and replica.phase in ("ready", "draining"):
                return replica
        return None

    def catch_up(self) -> None:
        """Bring the fleet to now, and wake those whose tokens have come."""
        self.fleet.settle(self.clock.now_seconds())
        for key, (replica, sequence, event, seen) in list(self._watched.items()):
            if sequence.has_ended:
                del self._watched[key]
                self.served.append(sequence)
                if self.on_end is not None:
                    self.on_end(sequence)
                event.set()
            elif sequence.generated_tokens > seen:
                self._watched[key] = (replica, sequence, event, sequence.generated_tokens)
                event.set()

    def submit(self, replica: Replica, ask: Ask, arrived_at_seconds: float) -> tuple[Sequence, asyncio.Event]:
        """Send a client's request to its replica; the event is set whenever there is news of it."""
        at_seconds = max(arrived_at_seconds, self.fleet.now_seconds)
        self.fleet.settle(at_seconds)
        sequence = replica.engine.submit(ask, at_seconds)
        sequence.replica = replica.name
        event = asyncio.Event()
        self._watched[f"{id(sequence)}"] = (replica, sequence, event, 0)
        self._nudge.set()
        return sequence, event

    def abort(self, replica: Replica, sequence: Sequence) -> None:
        """The client of this request is gone."""
        self.catch_up()
        replica.engine.abort(sequence, self.fleet.now_seconds)

    async def run(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """Advance for ever; `on_change` is awaited whenever a replica came or went."""
        revision = -1
        while True:
            self.catch_up()
            if self.fleet.revision != revision:
                revision = self.fleet.revision
                await on_change()
            pause_seconds = self._pause_seconds()
            if pause_seconds <= 0:
                await asyncio.sleep(0)
                continue
            self._nudge.clear()
            try:
                await asyncio.wait_for(self._nudge.wait(), pause_seconds)
            except TimeoutError:
                continue

    def _pause_seconds(self) -> float:
        """Real seconds to sleep until there can be news for a client of ours; 0 means to look again at once.

        The selector sleeps whole milliseconds, rounded up, so in real time the last one is spent looking: a token must
        not be late because of it. In scaled time a millisecond is many steps anyhow.
        """
        due = min((entry[0].engine.next_step_seconds() for entry in self._watched.values()), default=None)
        if due is None:
            return IDLE_TICK_SECONDS
        pause = min(self.clock.real_seconds(due - self.clock.now_seconds()), IDLE_TICK_SECONDS)
        if self.clock.real_seconds(1.0) != 1.0:
            return max(pause, SELECTOR_SECONDS)
        return floor(pause / SELECTOR_SECONDS) * SELECTOR_SECONDS - SELECTOR_SECONDS / 10
