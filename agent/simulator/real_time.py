"""The fleet in real (or scaled) time: a small loop that advances it to the clock's now, and wakes who waits."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import floor

from agent.simulator.ask import Ask, Sequence
from agent.simulator.fleet import Call, Fleet
from agent.simulator.replica import Replica
from probes.clock import Clock

IDLE_TICK_SECONDS = 0.02  # real seconds between two looks when no client of ours waits for a token
SERVED_KEPT = 10_000  # requests whose truth can be asked for
SELECTOR_SECONDS = 0.001  # the resolution of epoll's timeout
LAG_KEPT_SECONDS = 60.0  # of the clock: so long ago the worst lag is still told
LAG_NOTED_SECONDS = 1.0  # of the clock: less is the loop's own step


@dataclass(slots=True)
class _Watch:
    """A call that an HTTP handler waits for, and how many of its tokens it has been told of."""

    call: Call
    event: asyncio.Event
    seen: int = 0


class RealTime:
    """Advances the fleet, and tells waiting HTTP handlers when their sequence has something new."""

    def __init__(self, fleet: Fleet, clock: Clock) -> None:
        self.fleet = fleet
        self.clock = clock
        self._watched: dict[int, _Watch] = {}
        self.served: deque[Sequence] = deque(maxlen=SERVED_KEPT)
        self._nudge = asyncio.Event()
        self._settled_at_seconds = clock.now_seconds()
        self._lags: deque[tuple[float, float]] = deque()

    def replica(self, index: int) -> Replica | None:
        """The replica at that place while it answers."""
        for replica in self.fleet.replicas:
            if replica.index == index and replica.phase in ("ready", "draining"):
                return replica
        return None

    def catch_up(self) -> None:
        """Bring the fleet to now, and wake those whose tokens have come."""
        now_seconds = self.clock.now_seconds()
        self._note_lag(now_seconds)
        self.fleet.settle(now_seconds)
        for key, watch in list(self._watched.items()):
            if watch.call.has_ended:
                del self._watched[key]
                watch.event.set()
                if watch.call.sequence is not None:
                    self.served.append(watch.call.sequence)
            elif watch.call.tokens > watch.seen:
                watch.seen = watch.call.tokens
                watch.event.set()

    def lag_seconds(self) -> float:
        """The farthest that the fleet was behind the clock within its last minute, in the clock's seconds."""
        return max((lag for _, lag in self._lags), default=0.0)

    def submit(self, replica: Replica, ask: Ask, arrived_at_seconds: float) -> tuple[Call, asyncio.Event]:
        """Send a client's request to the replica it asked; the event is set whenever there is news of it.

        In a fleet of prefill and decode engines every port stands for the proxy, which chooses one of each.
        """
        at_seconds = max(arrived_at_seconds, self.fleet.now_seconds)
        self.fleet.settle(at_seconds)
        if replica.role == "aggregated":
            sequence = replica.engine.submit(ask, at_seconds)
            sequence.replica = replica.name
            sequence.on_end = self.fleet.tell
            call = Call(ask, at_seconds, sequence, replica.engine)
        else:
            call = self.fleet.submit(ask, at_seconds)
        event = asyncio.Event()
        self._watched[id(call)] = _Watch(call, event)
        self._nudge.set()
        return call, event

    def abort(self, call: Call) -> None:
        """The client of this request is gone."""
        self.catch_up()
        call.abort(self.fleet.now_seconds)

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

    def _note_lag(self, now_seconds: float) -> None:
        lag, self._settled_at_seconds = now_seconds - self._settled_at_seconds, now_seconds
        while self._lags and self._lags[0][0] < now_seconds - LAG_KEPT_SECONDS:
            self._lags.popleft()
        if lag >= LAG_NOTED_SECONDS:
            self._lags.append((now_seconds, lag))

    def _pause_seconds(self) -> float:
        """Real seconds to sleep until there can be news for a client of ours; 0 means to look again at once.

        The selector sleeps whole milliseconds, rounded up, so in real time the last one is spent looking: a token must
        not be late because of it. In scaled time a millisecond is many steps anyhow.
        """
        engines = [watch.call.engine for watch in self._watched.values() if watch.call.engine is not None]
        due = min((engine.next_step_seconds() for engine in engines), default=None)
        if due is None:
            return IDLE_TICK_SECONDS
        pause = min(self.clock.real_seconds(due - self.clock.now_seconds()), IDLE_TICK_SECONDS)
        if self.clock.real_seconds(1.0) != 1.0:
            return max(pause, SELECTOR_SECONDS)
        return floor(pause / SELECTOR_SECONDS) * SELECTOR_SECONDS - SELECTOR_SECONDS / 10
