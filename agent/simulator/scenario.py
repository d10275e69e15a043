"""A story: a fleet, its traffic and what befalls it, decided by one seed."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent.simulator.arrivals import Arrivals, Cv
from agent.simulator.ask import Sequence
from agent.simulator.conversations import Conversations, Habits
from agent.simulator.faults import Fault
from agent.simulator.fleet import Fleet
from agent.simulator.plant import Plant
from agent.simulator.router import Skewed
from agent.simulator.seeds import stream
from agent.simulator.telemetry import GapLog
from agent.simulator.tier import CacheTier, TierConnector
from agent.simulator.topology import Topology
from agent.simulator.workload import OpenLoop, Prompts, Workload


@dataclass(frozen=True, slots=True)
class Stage:
    """What a scenario sets up: the fleet, and the cache tiers beside it."""

    fleet: Fleet
    tiers: tuple[CacheTier, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A story in seconds since its start.

    Traffic is `prompts` (independent requests) or `habits` (conversations) at `rate`. `weights` are the replicas'
    shares where a balancer is skewed. `next_plant`, from `next_plant_at_seconds` on, is what new replicas are.
    """

    name: str
    story: str
    duration_seconds: float
    rate: Callable[[float], float]
    prompts: Callable[[float], Prompts] | None = None
    habits: Habits | None = None
    plant: Plant = field(default_factory=Plant)
    topology: Topology = field(default_factory=Topology)
    cv: Cv = 1.0
    cold_start_seconds: float = 110.0  # facts/recommend.md 7: Qwen3-32B pods took 104-130 s
    faults: tuple[Fault, ...] = ()
    tier: Callable[[], CacheTier] | None = None
    weights: tuple[float, ...] = ()
    next_plant: Plant | None = None
    next_plant_at_seconds: float = 0.0

    def stage(
        self,
        seed: int,
        start_seconds: float,
        *,
        model: str | None = None,
        replicas: int | None = None,
        on_end: Callable[[Sequence], None] | None = None,
        gaps: GapLog | None = None,
    ) -> Stage:
        """Everything at its beginning; `model` and `replicas` override the story's."""
        plant = replace(self.plant, config=replace(self.plant.config, model=model)) if model else self.plant
        tiers = (self.tier(),) if self.tier else ()
        topology = self.topology if replicas is None else replace(self.topology, aggregated=replicas)
        if tiers:
            topology = replace(topology, connector=lambda _, telemetry: TierConnector(tiers[0], telemetry))
        if self.weights:
            topology = replace(topology, router=lambda: Skewed(stream(seed, "router")))
        fleet = topology.fleet(
            plant,
            self._workload(seed, start_seconds, plant),
            start_seconds,
            cold_start_seconds=self.cold_start_seconds,
            on_end=on_end,
            gaps=gaps,
        )
        for replica, weight in zip(fleet.replicas, self.weights, strict=False):
            replica.weight = weight
        if self.next_plant is not None:
            successor = replace(self.next_plant, config=plant.config)
            build = topology.builder(successor, gaps)
            fleet.at(start_seconds + self.next_plant_at_seconds, lambda _: setattr(fleet, "build", build))
        for fault in self.faults:
            fault.lay_on(fleet, tiers, start_seconds)
        return Stage(fleet, tiers)

    def _workload(self, seed: int, start_seconds: float, plant: Plant) -> Workload:
        arrivals = Arrivals(self.rate, stream(seed, "arrivals"), start_seconds, cv=self.cv)
        draws = stream(seed, "prompts")
        if self.habits is not None:
            config = plant.config
            return Conversations(
                arrivals, self.habits, draws, block_tokens=config.block_tokens, max_model_len=config.max_model_len
            )
        prompts = self.prompts
        if prompts is None:
            raise ValueError(self.name)
        return OpenLoop(arrivals, lambda at: prompts(at - start_seconds), draws)
