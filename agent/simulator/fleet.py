"""Replicas, a route to them and a workload, advanced together in virtual time. Pure: it is told the time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import Protocol

from agent.simulator.ask import Ask, Sequence
from agent.simulator.engine import Engine
from agent.simulator.replica import Replica
from agent.simulator.router import Router
from agent.simulator.workload import Workload

Builder = Callable[[str, int, float, float], Replica]
"""Makes the replica of that role and index, created at, ready at (both seconds)."""


@dataclass(slots=True)
class Call:
    """One request as its client sees it; `sequence` is the leg it is on now, None before it has reached an engine."""

    ask: Ask
    sent_at_seconds: float
    sequence: Sequence | None = None
    engine: Engine | None = None

    @property
    def tokens(self) -> int:
        """How many tokens the client has been given."""
        return 0 if self.sequence is None or self.sequence.ask.leg == "prefill" else self.sequence.generated_tokens

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing more to come; a prefill leg that went well is followed by another one at once."""
        return self.sequence is not None and self.sequence.has_ended

    def abort(self, now_seconds: float) -> None:
        """The client is gone."""
        if self.engine is not None and self.sequence is not None:
            self.engine.abort(self.sequence, now_seconds)

    def hang_up(self, now_seconds: float) -> None:
        """The client's patience is over: if there is no token by now, it goes."""
        if self.engine is None or self.sequence is None:
            return
        self.engine.advance(now_seconds)
        if self.sequence.first_token_at_seconds is None or self.sequence.ask.leg == "prefill":
            self.engine.abort(self.sequence, now_seconds)


class Route(Protocol):
    """How a request goes through the fleet. `is_reactive` says that the end of one leg brings another."""

    is_reactive: bool

    def send(self, fleet: "Fleet", call: Call, now_seconds: float) -> None:
        """Start the call on its way; `fleet.close` must hear of its end."""
        ...


class Direct:
    """Every replica does the whole request; a router chooses one."""

    is_reactive = False

    def __init__(self, router: Router) -> None:
        self.router = router

    def send(self, fleet: "Fleet", call: Call, now_seconds: float) -> None:
        fleet.place(call, call.ask, "aggregated", self.router, now_seconds, fleet.close)


class Fleet:
    """Everything behind one service. `on_end` hears of every request; `revision` rises when a replica comes or goes.

    `counts` says how many replicas of which role there are at the beginning; the first role is the one `scale` means.
    """

    def __init__(
        self,
        build: Builder,
        route: Route,
        workload: Workload | None,
        start_seconds: float,
        *,
        counts: Mapping[str, int],
        cold_start_seconds: float,
        on_end: Callable[[Sequence], None] | None = None,
    ) -> None:
        self.now_seconds = start_seconds
        self.build = build
        self.route = route
        self.workload = workload
        self.replicas: list[Replica] = []
        self.cold_start_seconds = cold_start_seconds
        self.revision = 0
        self.refused = 0
        self.main_role = next(iter(counts))
        self._on_end = on_end
        self._timers: list[tuple[float, int, Callable[[float], None]]] = []
        self._timer_ids = 0
        for role, count in counts.items():
            for _ in range(count):
                self.add(role, start_seconds, start_seconds)

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

    def scale(self, count: int, now_seconds: float, role: str | None = None) -> None:
        """Have so many replicas of a role: new ones come up after a cold start, surplus ones (newest first) drain."""
        self.advance(now_seconds)
        role = role or self.main_role
        living = [each for each in self.replicas if each.role == role and each.phase in ("starting", "ready")]
        for _ in range(count - len(living)):
            self.add(role, now_seconds, now_seconds + self.cold_start_seconds)
        for replica in reversed(living[count:]):
            self.retire(replica, now_seconds)

    def submit(self, ask: Ask, now_seconds: float) -> Call:
        """Send a client's request; with no replica ready it fails at once."""
        call = Call(ask, now_seconds)
        self.route.send(self, call, now_seconds)
        if ask.patience_seconds is not None and call.sequence is not None and not call.sequence.has_ended:
            self.at(now_seconds + ask.patience_seconds, call.hang_up)
        return call

    def place(
        self,
        call: Call,
        ask: Ask,
        role: str,
        router: Router,
        now_seconds: float,
        then: Callable[[Sequence], None],
    ) -> None:
        """Put one leg of a call on a replica of that role; `then` hears of its end."""
        able = [replica for replica in self.replicas if replica.phase == "ready" and replica.role == role]
        if not able:
            self.refused += 1
            lost = Sequence(ask, now_seconds, state="failed", ended_at_seconds=now_seconds)
            lost.sent_at_seconds = call.sent_at_seconds
            call.sequence = lost
            then(lost)
            return
        if router.reads_load:
            for each in able:
                each.engine.advance(now_seconds)
        replica = router.choose(able, ask)
        replica.engine.advance(now_seconds)
        sequence = replica.engine.submit(ask, now_seconds)
        sequence.replica = replica.name
        sequence.sent_at_seconds = call.sent_at_seconds
        call.sequence, call.engine = sequence, replica.engine

        def end(it: Sequence) -> None:
            ended = now_seconds if it.ended_at_seconds is None else it.ended_at_seconds
            replica.http.count(ask.endpoint, 200, ended - now_seconds, ended)
            then(it)

        sequence.on_end = end
        if sequence.has_ended:
            end(sequence)

    def listen(self, on_end: Callable[[Sequence], None]) -> None:
        """One more who hears of every request's end."""
        before = self._on_end

        def both(sequence: Sequence) -> None:
            if before is not None:
                before(sequence)
            on_end(sequence)

        self._on_end = both

    def tell(self, sequence: Sequence) -> None:
        """Let those who listen hear of a request's end."""
        if self._on_end is not None:
            self._on_end(sequence)

    def close(self, sequence: Sequence) -> None:
        """A call is over, in whatever way."""
        if self.workload is not None:
            ended = sequence.ended_at_seconds
            self.workload.ended(sequence, self.now_seconds if ended is None else ended)
        self.tell(sequence)

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

    def add(self, role: str, created_at_seconds: float, ready_at_seconds: float) -> Replica:
        """One more replica, at the lowest free place; it takes requests from `ready_at_seconds` on."""
        taken = {replica.index for replica in self.replicas}
        index = next(index for index in range(len(taken) + 1) if index not in taken)
        replica = self.build(role, index, created_at_seconds, ready_at_seconds)
        self.replicas.append(replica)

        def come_up(_: float) -> None:
            if replica.phase == "starting":
                replica.phase = "ready"
                self.revision += 1

        if ready_at_seconds <= created_at_seconds:
            come_up(created_at_seconds)
        else:
            self.at(ready_at_seconds, come_up)
        return replica

    def retire(self, replica: Replica, now_seconds: float) -> None:
        """Take no more requests; go when those under way are done."""
        self.revision += 1
        replica.engine.advance(now_seconds)
        if replica.phase == "starting" or not replica.engine.unfinished:
            self.remove(replica)
            return
        replica.phase = "draining"

        def look(at_seconds: float) -> None:
            replica.engine.advance(at_seconds)
            if replica.engine.unfinished:
                self.at(at_seconds + 1.0, look)
            else:
                self.remove(replica)

        self.at(now_seconds + 1.0, look)

    def remove(self, replica: Replica) -> None:
        """It is gone, with whatever it had."""
        replica.phase = "gone"
        if replica in self.replicas:
            self.replicas.remove(replica)
        self.revision += 1

    def _boundary_seconds(self) -> float:
        """When an engine may end a leg, where that can bring another one."""
        if not self.route.is_reactive and (self.workload is None or not self.workload.is_reactive):
            return inf
        return min((replica.engine.next_boundary_seconds() for replica in self.replicas), default=inf)
