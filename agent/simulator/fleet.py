"""Replicas, a router and a workload, advanced together in virtual time. Pure: it is told the time, and never waits."""

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

from agent.simulator.ask import Ask, Sequence
from agent.simulator.engine import Engine
from agent.simulator.replica import Replica
from agent.simulator.router import Router
from agent.simulator.workload import Workload

Builder = Callable[[int, float, float], Replica]
"""Makes the replica with that index, created at, ready at (both seconds)."""


class Fleet:
    """Everything behind one service. `on_end` hears of every request; `revision` rises when a replica comes or goes."""

    def __init__(
        self,
        build: Builder,
        router: Router,
        workload: Workload | None,
        start_seconds: float,
        *,
        count: int,
        cold_start_seconds: float,
        on_end: Callable[[Sequence], None] | None = None,
    ) -> None:
        self.now_seconds = start_seconds
        self.router = router
        self.workload = workload
        self.replicas: list[Replica] = []
        self.cold_start_seconds = cold_start_seconds
        self.revision = 0
        self.refused = 0
        self._build = build
        self._on_end = on_end
        self._timers: list[tuple[float, int, Callable[[float], None]]] = []
        self._timer_ids = 0
        for _ in range(count):
            self._add(start_seconds, start_seconds)

    @property
    def ready(self) -> list[Replica]:
        """Those that take requests."""
        return [replica for replica in self.replicas if replica.phase == "ready"]

    @property
    def wanted(self) -> int:
        """Those that are ready or will be."""
        return sum(replica.phase in ("starting", "ready") for replica in self.replicas)

    def at(self, at_seconds: float, act: Callable[[float], None]) -> None:
        """Do something at a time: a fault, a change of load, a client that gives up."""
        self._timer_ids += 1
        heappush(self._timers, (at_seconds, self._timer_ids, act))

    def scale(self, count: int, now_seconds: float) -> None:
        """Have so many replicas: new ones come up after a cold start, surplus ones (newest first) drain."""
        self.advance(now_seconds)
        for _ in range(count - self.wanted):
            self._add(now_seconds, now_seconds + self.cold_start_seconds)
        living = [replica for replica in self.replicas if replica.phase in ("starting", "ready")]
        for replica in living[count:][::-1] if count < len(living) else []:
            self._retire(replica, now_seconds)

    def submit(self, ask: Ask, now_seconds: float, replica: Replica | None = None) -> Sequence:
        """Send a request through the router, or to a given replica; with none ready it fails at once."""
        ready = self.ready
        if replica is None and not ready:
            self.refused += 1
            lost = Sequence(ask, now_seconds, state="failed", ended_at_seconds=now_seconds)
            self._ended(lost)
            return lost
        if replica is None:
            if self.router.reads_load:
                for each in ready:
                    each.engine.advance(now_seconds)
            replica = self.router.choose(ready, ask)
        engine = replica.engine
        engine.advance(now_seconds)
        sequence = engine.submit(ask, now_seconds)
        sequence.replica = replica.name
        counted = replica

        def end(it: Sequence) -> None:
            counted.http.count(ask.endpoint, 200, (it.ended_at_seconds or now_seconds) - now_seconds, now_seconds)
            self._ended(it)

        sequence.on_end = end
        if sequence.has_ended:
            end(sequence)
        elif ask.patience_seconds is not None:
            self.at(now_seconds + ask.patience_seconds, lambda at: _hang_up(engine, sequence, at))
        return sequence

    def advance(self, until_seconds: float) -> None:
        """Let everything happen that happens by then."""
        while True:
            boundary = self._boundary_seconds()
            timer = self._timers[0][0] if self._timers else inf
            arrival = self.workload.next_seconds(min(until_seconds, timer, boundary)) if self.workload else inf
            at_seconds = min(boundary, timer, arrival)
            if at_seconds > until_seconds or at_seconds == inf:
                break
            self.now_seconds = max(self.now_seconds, at_seconds)
            if arrival == at_seconds and self.workload is not None:
                self.submit(self.workload.take(), at_seconds)
            elif timer == at_seconds:
                heappop(self._timers)[2](at_seconds)
            else:
                for replica in self.replicas:
                    if replica.engine.next_boundary_seconds() <= at_seconds:
                        replica.engine.advance(at_seconds)
        self.now_seconds = max(self.now_seconds, until_seconds)

    def settle(self, until_seconds: float) -> None:
        """Advance, and bring every engine to that very moment, so that pages and states can be read."""
        self.advance(until_seconds)
        for replica in self.replicas:
            replica.engine.advance(until_seconds)

    def _boundary_seconds(self) -> float:
        """When an engine may end a request, where that can bring another one."""
        if self.workload is None or not self.workload.is_reactive:
            return inf
        return min((replica.engine.next_boundary_seconds() for replica in self.replicas), default=inf)

    def _ended(self, sequence: Sequence) -> None:
        if self.workload is not None:
            self.workload.ended(sequence, sequence.ended_at_seconds or self.now_seconds)
        if self._on_end is not None:
            self._on_end(sequence)

    def _add(self, created_at_seconds: float, ready_at_seconds: float) -> None:
        taken = {replica.index for replica in self.replicas}
        index = next(index for index in range(len(taken) + 1) if index not in taken)
        replica = self._build(index, created_at_seconds, ready_at_seconds)
        self.replicas.append(replica)

        def come_up(_: float) -> None:
            if replica.phase == "starting":
                replica.phase = "ready"
                self.revision += 1

        if ready_at_seconds <= created_at_seconds:
            come_up(created_at_seconds)
        else:
            self.at(ready_at_seconds, come_up)

    def _retire(self, replica: Replica, now_seconds: float) -> None:
        self.revision += 1
        if replica.phase == "starting" or not replica.engine.unfinished:
            self._remove(replica)
            return
        replica.phase = "draining"

        def look(at_seconds: float) -> None:
            replica.engine.advance(at_seconds)
            if replica.engine.unfinished:
                self.at(at_seconds + 1.0, look)
            else:
                self._remove(replica)

        self.at(now_seconds + 1.0, look)

    def _remove(self, replica: Replica) -> None:
        replica.phase = "gone"
        self.replicas.remove(replica)
        self.revision += 1


def _hang_up(engine: Engine, sequence: Sequence, at_seconds: float) -> None:
    engine.advance(at_seconds)
    if sequence.first_token_at_seconds is None:
        engine.abort(sequence, at_seconds)
