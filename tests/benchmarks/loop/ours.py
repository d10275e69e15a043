"""The agent unchanged: it reads the simulator's pages, ticks, and its advised count is what the actuator follows."""

from dataclasses import dataclass, field

from loop.services import Service
from loop.world import COLD_MEAN, MOST_REPLICAS, World

from agent.burn_windows import standard_pairs
from agent.model import Effects, Slo
from agent.plan import AdvicePlan, Plan
from agent.sli.count import TargetFacts
from agent.tick import Memory, tick
from probes.page import SystemPage
from probes.sample import Reading

MONTH = 30 * 86_400.0
SCRAPE_SECONDS = 10.0
LEAST_CONFIDENCE = 0.5  # below it the actuator leaves things as they are (facts/recommend.md 5f: "suggest")


@dataclass(slots=True)
class OurAgent:
    """Scrapes every 10 s, ticks every 5 s. Replicas that start are known to discovery, and refuse the connection.

    `loss` is called with (target, time) and says whether a scrape fails.
    """

    service: Service
    memory: Memory = field(default_factory=Memory)
    last: Effects | None = None
    _pages: dict[str, SystemPage] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _plan: Plan | None = None
    _known: tuple[str, ...] = ()

    def decide(self, world: World, now_seconds: float) -> int | None:
        if now_seconds % SCRAPE_SECONDS < 5.0:
            self._scrape(world, now_seconds)
        self.last = tick(self._planned(world), self.memory, now_seconds)
        wishes = self.last.snapshot.replicas
        if not wishes or wishes[0].confidence < LEAST_CONFIDENCE:
            return None
        return None if wishes[0].value == wishes[0].current else wishes[0].value

    def _scrape(self, world: World, now_seconds: float) -> None:
        for replica in world.fleet.replicas:
            name = self._name(replica)
            if replica.phase == "draining":
                continue
            if replica.phase != "ready":
                self.memory.windows.take(Reading(name, "vllm", now_seconds, "connect_refused", "nobody listens there"))
                continue
            replica.engine.advance(now_seconds)
            page = self._pages.setdefault(name, SystemPage("vllm"))
            self.memory.windows.take(page.read(replica.page.text(), name, now_seconds))

    def _name(self, replica: object) -> str:
        """A pod's name is its own: an index is used again."""
        return self._names.setdefault(id(replica), f"{replica.name}-{len(self._names)}")  # type: ignore[attr-defined]

    def _planned(self, world: World) -> Plan:
        living = [each for each in world.fleet.replicas if each.phase in ("starting", "ready")]
        names = tuple(self._name(each) for each in living)
        if self._plan is None or names != self._known:
            for gone in set(self._known) - set(names):
                self.memory.windows.forget(gone)
            model = world.service.plants[world.plant].config.model
            facts = {name: TargetFacts(model, "aggregated", None, gpu_type="gpu") for name in names}
            self._known, self._plan = (
                names,
                Plan(
                    self._promises(),
                    facts,
                    scrape_interval_seconds=SCRAPE_SECONDS,
                    advice=AdvicePlan((), COLD_MEAN + 20, 1, MOST_REPLICAS),
                ),
            )
        return self._plan

    def _promises(self) -> tuple[Slo, ...]:
        limits = (("ttft", self.service.ttft_seconds), ("tpot", self.service.tpot_seconds))
        return tuple(
            Slo(name, "llm", name, "engine", self.service.objective_ratio, MONTH, standard_pairs(MONTH), seconds)  # type: ignore[arg-type]
            for name, seconds in limits
        )
