"""A kind of server: which model on which GPU, how it was started, how long its steps take, what it costs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agent.simulator.catalogue import histogram_edges
from agent.simulator.engine import Engine, EngineConfig
from agent.simulator.http_counts import HttpCounts
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
        self, index: int, created_at_seconds: float, ready_at_seconds: float, *, gaps: GapLog | None = None
    ) -> Replica:
        """One replica of this kind. The law is made with the index as its seed, so that noise differs between them."""
        telemetry = Telemetry(histogram_edges(self.config.max_model_len, (), self.edges), gaps=gaps)
        engine = Engine(self.config, self.law(index), telemetry)
        http = HttpCounts()
        return Replica(
            index,
            f"sim-{index}",
            engine,
            VllmPage(engine, http, created_at_seconds),
            http,
            created_at_seconds,
            ready_at_seconds,
            gpu_type=self.gpu_type,
        )
