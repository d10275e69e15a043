"""A fleet with an actuator that has a cold start and drains, and the count of what its users got."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol

from loop.services import PATIENCE_SECONDS, Service, Timed

from agent.simulator.ask import Sequence
from agent.simulator.fleet import Fleet
from agent.simulator.seeds import stream
from agent.simulator.topology import Topology
from agent.simulator.traces import Replay

START = 1_800_000_000.0
COLD_MEAN, COLD_SPREAD = 110.0, 20.0  # facts/recommend.md 6: 110 +/- 20 s
STEP_SECONDS = 5.0
MOST_REPLICAS = 16  # the GPU budget, everybody's
GRACE_SECONDS = PATIENCE_SECONDS + 30.0


class Policy(Protocol):
    """Decides how many replicas there should be. Called every `STEP_SECONDS`; None leaves things as they are."""

    def decide(self, world: "World", now_seconds: float) -> int | None: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to. Ratios 0..1; `good_tokens` are output tokens of requests that kept the promise."""

    attainment_ratio: float
    gpu_hours: float
    dollars_per_million_good_tokens: float | None
    actions: int
    reversals: int
    longest_violation_seconds: float
    replicas_mean: float
    never_answered: int
    requests: int


@dataclass(slots=True)
class World:
    """One run of one service under one policy. `has_cold_start` is False for the oracle that is spared it."""

    service: Service
    plant: str
    seed: int = 0
    has_cold_start: bool = True
    fleet: Fleet = field(init=False)
    wanted: int = field(init=False, default=1)
    arrived: int = field(init=False, default=0)
    prompt_tokens: int = field(init=False, default=0)
    output_tokens: int = field(init=False, default=0)
    _minutes: dict[int, list[int]] = field(init=False, default_factory=dict)
    _good_tokens: float = field(init=False, default=0.0)
    _sent: list[float] = field(init=False, default_factory=list)
    _lost: int = field(init=False, default=0)
    _replica_seconds: float = field(init=False, default=0.0)
    _moves: list[int] = field(init=False, default_factory=list)

    def run(self, policy: Policy, first_count: int) -> Outcome:
        """The whole service from its first request to its last, beginning with so many ready replicas."""
        plant, topology = self.service.plants[self.plant], Topology(first_count, router=self.service.router)
        requests = self._counted(self.service.requests(self.seed))
        self.fleet = topology.fleet(plant, Replay(requests, START), START, on_end=self._ended)
        self.wanted, cold = first_count, stream(self.seed, "cold start")
        now = START
        while now < START + self.service.seconds:
            now += STEP_SECONDS
            self.fleet.advance(now)
            self._replica_seconds += STEP_SECONDS * len(self.fleet.replicas)
            wanted = policy.decide(self, now)
            if wanted is not None and (wanted := min(max(1, wanted), MOST_REPLICAS)) != self.wanted:
                self._act(wanted, now, lambda: max(60.0, cold.gauss(COLD_MEAN, COLD_SPREAD)))
        self.fleet.settle(now + GRACE_SECONDS)
        return self._outcome(plant.dollars_per_hour)

    def _act(self, wanted: int, now: float, draw: Callable[[], float]) -> None:
        """New replicas come after their cold start; surplus ones go, those still coming first; others drain."""
        self._moves.append(1 if wanted > self.wanted else -1)
        self.wanted = wanted
        living = [each for each in self.fleet.replicas if each.phase in ("starting", "ready")]
        for _ in range(wanted - len(living)):
            self.fleet.add("aggregated", now, now + (draw() if self.has_cold_start else 0.0))
        surplus = sorted(living, key=lambda each: (each.phase == "starting", each.created_at_seconds))[wanted:]
        for replica in surplus:
            self.fleet.retire(replica, now)

    def _counted(self, requests: Timed) -> Timed:
        for at, ask in requests:
            if at >= self.service.seconds:
                return
            self._sent.append(at)
            yield at, ask
            self.arrived += 1
            self.prompt_tokens += ask.prompt_tokens
            self.output_tokens += ask.output_tokens

    def _ended(self, sequence: Sequence) -> None:
        minute = self._minutes.setdefault(int((sequence.arrived_at_seconds - START) // 60), [0, 0])
        minute[1] += 1
        first, last = sequence.first_token_at_seconds, sequence.last_token_at_seconds
        if sequence.state != "finished" or first is None or last is None:
            self._lost += 1
            return
        gaps = max(1, sequence.generated_tokens - 1)
        is_good = (
            first - sequence.arrived_at_seconds <= self.service.ttft_seconds
            and (last - first) / gaps <= self.service.tpot_seconds
        )
        if is_good:
            minute[0] += 1
            self._good_tokens += sequence.generated_tokens

    def _outcome(self, dollars_per_hour: float) -> Outcome:
        """Requests that were sent and of which nothing came are misses, in their minute."""
        by_minute = groupby(self._sent, key=lambda at: int(at // 60))
        sent_by_minute = {minute: len(list(group)) for minute, group in by_minute}
        good = sum(counts[0] for counts in self._minutes.values())
        hours = self._replica_seconds / 3600
        longest = run = 0
        for minute in range(int(self.service.seconds // 60)):
            sent = sent_by_minute.get(minute, 0)
            kept = self._minutes.get(minute, [0, 0])[0]
            run = run + 1 if sent and kept < self.service.objective_ratio * sent else 0
            longest = max(longest, run)
        return Outcome(
            good / max(1, len(self._sent)),
            hours,
            hours * dollars_per_hour / self._good_tokens * 1e6 if self._good_tokens else None,
            len(self._moves),
            sum(a != b for a, b in zip(self._moves, self._moves[1:], strict=False)),
            60.0 * longest,
            hours * 3600 / self.service.seconds,
            self._lost + len(self._sent) - sum(counts[1] for counts in self._minutes.values()),
            len(self._sent),
        )
