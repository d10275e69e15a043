"""A kind of server: which model on which GPU, how it was started, how long its steps take, what it costs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agent.simulator.catalogue import histogram_edges
from agent.simulator.engine import Engine, EngineConfig
from agent.simulator.http_counts import HttpCounts
from agent.simulator.kv_source import KvSource
from agent.simulator.page import VllmPage
from agent.simulator.replica import Replica
from agent.simulator.step_time import LinearStepTime, StepTime
from agent.simulator.telemetry import GapLog, Telemetry

KV_BYTES_PER_TOKEN = 131_072  # facts/h200.md: 8B Llama shape, bf16, 128 KiB a token


@dataclass(frozen=True, slots=True)
class Plant:
    """What every replica of one kind has in common.

    `dollars_per_hour`: list price of one H200 (facts/recommend.md 5g).
    """

    config: EngineConfig = field(default_factory=EngineConfig)
    law: Callable[[int], StepTime] = lambda _: LinearStepTime()
    gpu_type: str = "H200"
    dollars_per_hour: float = 5.75
    kv_bytes_per_token: int = KV_BYTES_PER_TOKEN
    edges: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def build(
        self,
        role: str,
        index: int,
        created_at_seconds: float,
        ready_at_seconds: float,
        *,
        gaps: GapLog | None = None,
        connector: Callable[[Telemetry], KvSource] | None = None,
        groups: tuple[str, ...] = (),
    ) -> Replica:
        """One replica of this kind. The law is made with the index as its seed, so that noise differs between them."""
        telemetry = Telemetry(histogram_edges(self.config.max_model_len, groups, self.edges), gaps=gaps)
        source = connector(telemetry) if connector else None
        engine = Engine(self.config, self.law(index), telemetry, kv_source=source)
        http = HttpCounts()
        return Replica(
            index,
            f"sim-{index}",
            engine,
            VllmPage(engine, http, created_at_seconds, groups=groups),
            http,
            created_at_seconds,
            ready_at_seconds,
            role,
            gpu_type=self.gpu_type,
            dollars_per_hour=self.dollars_per_hour,
        )
