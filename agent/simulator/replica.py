"""One server of the fleet: an engine, its front door's counts, its page, and where it is in its life."""

from dataclasses import dataclass, field
from typing import Literal

from agent.simulator.engine import Engine
from agent.simulator.http_counts import HttpCounts
from agent.simulator.page import VllmPage

Phase = Literal["starting", "ready", "draining", "gone"]


@dataclass(slots=True)
class Replica:
    """`index` is its place (its port, in a server); `ready_at_seconds` when it answers after its cold start."""

    index: int
    name: str
    engine: Engine
    page: VllmPage
    http: HttpCounts
    created_at_seconds: float
    ready_at_seconds: float
    role: str = "aggregated"
    phase: Phase = "starting"
    weight: float = 1.0
    gpu_type: str = "H200"
    dollars_per_hour: float = 0.0
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def load(self) -> int:
        """Requests it has and has not finished."""
        return self.engine.unfinished
