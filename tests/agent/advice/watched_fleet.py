"""A small fleet of the simulator, read as the agent reads it, for rules that need an hour of real pages."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent.burn_windows import standard_pairs
from agent.model import Effects, ReplicaWish, Slo
from agent.plan import AdvicePlan, Plan
from agent.simulator.arrivals import Arrivals
from agent.simulator.engine import EngineConfig
from agent.simulator.faults import Fault
from agent.simulator.fleet import Fleet
from agent.simulator.lengths import LogNormal
from agent.simulator.plant import Plant
from agent.simulator.replica import Replica
from agent.simulator.seeds import stream
from agent.simulator.step_time import LinearStepTime
from agent.simulator.topology import Topology
from agent.simulator.workload import OpenLoop, Prompts, Workload
from agent.sli.count import TargetFacts
from agent.tick import Memory, tick
from probes.engine_args import engine_args
from probes.page import SystemPage
from probes.sample import Reading

T0 = 1_800_000_000.0
LAW = LinearStepTime(22e-3, 90e-6, 152e-9, 20e-6)  # facts/recommend.md 5a: the proportions of a 32B model
PLANT = Plant(EngineConfig(model="m", max_num_batched_tokens=2048, num_gpu_blocks=18_750), law=lambda _: LAW)
CHAT = Prompts(LogNormal(1500, 0.5, 6000, 100), LogNormal(200, 0.5, 900, 8), finish_reason="stop")
MONTH = 30 * 86_400.0
PAIRS = standard_pairs(MONTH)
SLOS = (
    Slo("ttft", "chat", "ttft", "engine", 0.95, MONTH, PAIRS, 2.5),
    Slo("tpot", "chat", "tpot", "engine", 0.95, MONTH, PAIRS, 0.1),
)


@dataclass(slots=True)
class WatchedFleet:
    """`rate` gives requests per second by seconds since the start; `fails` says which scrape (target, time) fails,
    `hides` which line of a page is not there, `rewrites` what (line, target, time) reads instead, `args` how
    the engines are said to have been started. `topology` and `workload` take the place of `replicas` and of `prompts`.
    Pages are read every `reads_every` seconds; ticks come every `ticks_every` seconds, and one when `go` is over. The
    agents `beside` read the same pages with memories of their own.
    """

    rate: Callable[[float], float]
    replicas: int
    fails: Callable[[str, float], bool] = lambda _name, _at: False
    hides: Callable[[str, float], bool] = lambda _line, _at: False
    rewrites: Callable[[str, str, float], str] = lambda line, _name, _at: line
    args: str = ""
    topology: Topology | None = None
    plant: Plant = PLANT
    prompts: Prompts = CHAT
    workload: Workload | None = None
    slos: tuple[Slo, ...] = SLOS
    faults: tuple[Fault, ...] = ()
    weights: tuple[float, ...] = ()
    reads_every: float = 10.0
    ticks_every: float = 5.0
    memory: Memory = field(default_factory=Memory)
    effects: list[Effects] = field(default_factory=list)
    beside: list[Memory] = field(default_factory=list)
    told_beside: list[Effects] = field(default_factory=list)
    plan: Plan = field(init=False)
    _fleet: Fleet = field(init=False)
    _pages: dict[str, SystemPage] = field(default_factory=dict)
    _now: float = T0

    def __post_init__(self) -> None:
        arrivals = Arrivals(self.rate, stream(1, "arrivals"), T0)
        workload = self.workload or OpenLoop(arrivals, lambda _: self.prompts, stream(1, "prompts"))
        self._fleet = (self.topology or Topology(self.replicas)).fleet(self.plant, workload, T0)
        for replica, weight in zip(self._fleet.replicas, self.weights, strict=False):
            replica.weight = weight
        for fault in self.faults:
            fault.lay_on(self._fleet, (), T0)
        self.plan = Plan(self.slos, {}, advice=AdvicePlan(cold_start_seconds=120.0))
        self.plan = self._planned()

    def go(self, seconds: float) -> ReplicaWish | None:
        """Let so many seconds pass; the newest wish."""
        until = self._now + seconds
        while self._now < until:
            self._now += 5.0
            if self._now % self.reads_every == 0:
                self.read()
            if self._now % self.ticks_every == 0 or self._now == until:
                self.effects.append(tick(self.plan, self.memory, self._now))
                self.told_beside += [tick(self.plan, memory, self._now) for memory in self.beside]
        return next(iter(self.effects[-1].snapshot.replicas), None)

    @property
    def now_seconds(self) -> float:
        return self._now

    def scale(self, count: int, role: str | None = None) -> None:
        """Do what was advised, at once and without a cold start."""
        self._fleet.cold_start_seconds = 0.0
        self._fleet.scale(count, self._now, role)
        self.plan = self._planned()

    @property
    def replicas_there(self) -> list[Replica]:
        return self._fleet.replicas

    @property
    def wishes(self) -> list[ReplicaWish]:
        return [effects.snapshot.replicas[0] for effects in self.effects if effects.snapshot.replicas]

    def _planned(self) -> Plan:
        there = [replica for replica in self._fleet.replicas if replica.phase != "draining"]
        args, _ = engine_args(self.args)
        facts = {each.name: TargetFacts("m", each.role, None, 0.0016, engine_args=args) for each in there}
        for gone in set(self.plan.targets) - set(facts):
            self.memory.windows.forget(gone)
        return replace(self.plan, targets=facts)

    def read(self) -> None:
        """Look at every page now."""
        self._fleet.settle(self._now)
        for replica in self._fleet.replicas:
            if replica.name not in self.plan.targets:
                continue
            if self.fails(replica.name, self._now):
                self._take(Reading(replica.name, "vllm", self._now, "timeout", "no page within 5 s"))
                continue
            page = self._pages.setdefault(replica.name, SystemPage("vllm"))
            lines = [
                self.rewrites(line, replica.name, self._now)
                for line in replica.page.text().splitlines()
                if not self.hides(line, self._now)
            ]
            self._take(page.read("\n".join(lines) + "\n", replica.name, self._now))

    def _take(self, reading: Reading) -> None:
        for memory in (self.memory, *self.beside):
            memory.windows.take(reading)
