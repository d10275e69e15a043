"""The review: rules that look at more than replicas, cheapest change first, once a minute."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agent.advice.bucket_edges import bucket_edges
from agent.advice.gpu_repair import gpu_repair
from agent.advice.infeasible import infeasible
from agent.advice.kv_room import kv_room
from agent.advice.kv_tier import kv_tier
from agent.advice.pd_back import pd_back
from agent.advice.pd_expiry import pd_expiry
from agent.advice.pd_rebalance import pd_rebalance
from agent.advice.pd_transfer import pd_transfer
from agent.advice.prefix_routing import prefix_routing
from agent.advice.routing import routing
from agent.advice.scene import Scene
from agent.advice.sequence_cap import sequence_cap
from agent.advice.slow_replica import slow_replica
from agent.advice.speculation import speculation
from agent.advice.token_budget_rule import token_budget
from agent.advice.topology import topology
from agent.model import Recommendation

Rule = Callable[[Scene], Iterator[Recommendation]]
RULES: tuple[Rule, ...] = (
    infeasible,
    slow_replica,
    routing,
    prefix_routing,
    pd_transfer,
    pd_expiry,
    token_budget,
    sequence_cap,
    kv_room,
    speculation,
    kv_tier,
    pd_rebalance,
    pd_back,
    topology,
)
BESIDE: tuple[Rule, ...] = (gpu_repair, bucket_edges)
"""These speak whatever else is said: what they change is no setting of the engine's pace."""
EVERY_SECONDS = 60.0  # a rehearsal takes a quarter of a second; what it is about lasts for minutes


@dataclass(slots=True)
class Review:
    """Remembers when it last looked."""

    last_at_seconds: float | None = None

    def advise(self, scene: Scene) -> Iterator[Recommendation]:
        """What the rules say now; nothing between two looks. Of one model, role and action the first rule speaks."""
        last = self.last_at_seconds
        if last is not None and 0 <= scene.now_seconds - last < EVERY_SECONDS:
            return
        self.last_at_seconds = scene.now_seconds
        spoken = set()
        for rule in RULES:
            for advice in rule(scene):
                topic = (advice.model, advice.role, advice.action)
                if topic not in spoken:
                    spoken.add(topic)
                    yield advice
        for rule in BESIDE:
            yield from rule(scene)
