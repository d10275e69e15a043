"""Named, seeded stories: what the demo shows, what the docs tell, what golden tests hold."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

from agent.simulator.arrivals import Arrivals, Steps
from agent.simulator.ask import Sequence
from agent.simulator.fleet import Direct, Fleet
from agent.simulator.lengths import LogNormal
from agent.simulator.plant import Plant
from agent.simulator.router import LeastLoad, Router
from agent.simulator.seeds import stream
from agent.simulator.workload import OpenLoop, Prompts

CHAT = Prompts(LogNormal(1750, 0.5, 6000, 100), LogNormal(180, 0.6, 900, 8), finish_reason="stop")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A story in seconds since its start; the seed decides everything that is random in it."""

    name: str
    story: str
    duration_seconds: float
    replicas: int
    rate: Callable[[float], float]
    prompts: Callable[[float], Prompts]
    plant: Plant = field(default_factory=Plant)
    router: Callable[[Random], Router] = lambda _: LeastLoad()
    cv: float = 1.0
    cold_start_seconds: float = 110.0  # facts/recommend.md 7: Qwen3-32B pods took 104-130 s

    def fleet(
        self,
        seed: int,
        start_seconds: float,
        *,
        model: str | None = None,
        replicas: int | None = None,
        on_end: Callable[[Sequence], None] | None = None,
    ) -> Fleet:
        """The fleet of this story with its workload, at its beginning."""
        plant = replace(self.plant, config=replace(self.plant.config, model=model)) if model else self.plant
        arrivals = Arrivals(self.rate, stream(seed, "arrivals"), start_seconds, cv=self.cv)
        workload = OpenLoop(arrivals, lambda at: self.prompts(at - start_seconds), stream(seed, "prompts"))
        return Fleet(
            plant.build,
            Direct(self.router(stream(seed, "router"))),
            workload,
            start_seconds,
            counts={"aggregated": self.replicas if replicas is None else replicas},
            cold_start_seconds=self.cold_start_seconds,
            on_end=on_end,
        )


DEMO = Scenario(
    "demo",
    "Two replicas serve chat comfortably; after eight minutes the load steps up beyond what they can do, and stays. "
    "Four replicas serve it again.",
    duration_seconds=3600.0,
    replicas=2,
    rate=Steps(((0.0, 8.0), (480.0, 40.0))),
    prompts=lambda _: CHAT,
    cold_start_seconds=110.0,
)

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in (DEMO,)}
