"""Split services for the rules about them: hand-made pools, and a fleet of the simulator that shows such ones.

The plant is four times as slow as that of watched_fleet.py: the same physics with a quarter of the steps. A decode step
is 88 ms + 1.1 ms a sequence of 1,650 tokens, a prompt of 1,500 tokens 0.63 s.
"""

from collections.abc import Callable

from watched_fleet import MONTH, PAIRS, WatchedFleet

from agent.advice.capacity import EngineCapacity
from agent.advice.pd_pools import Pools
from agent.advice.rehearsal import EngineLimits, Load
from agent.advice.scene import Scene
from agent.advice.step_model import StepModel
from agent.advice.topologies import Transfer
from agent.model import Budget, Counts, Slo, SloStatus, TargetStatus
from agent.plan import Plan
from agent.simulator.engine import EngineConfig
from agent.simulator.lengths import LogNormal
from agent.simulator.pd import Link
from agent.simulator.plant import Plant
from agent.simulator.step_time import LinearStepTime
from agent.simulator.topology import Topology
from agent.simulator.workload import Prompts
from agent.windows import Windows

LAW = LinearStepTime(88e-3, 360e-6, 608e-9, 80e-6)
PLANT = Plant(
    EngineConfig(model="m", block_tokens=128, num_gpu_blocks=2_344, max_num_batched_tokens=2048), law=lambda _: LAW
)
CHAT = Prompts(LogNormal(1500, 0.5, 6000, 100), LogNormal(300, 0.5, 2000, 8), finish_reason="stop")
SHORT_ANSWERS = Prompts(LogNormal(1500, 0.5, 6000, 100), LogNormal(150, 0.5, 900, 8), finish_reason="stop")
ENGINE = EngineCapacity(
    StepModel(
        88e-3, 360e-6, 80e-6, 608e-9, is_split_known=True, error_ratio=0.05, samples=100, covariance=((0.0,) * 4,) * 4
    ),
    EngineLimits(2048, 256, 300_000.0),
    0.018,
    0.1,
)
QUICK = Transfer(0.0, 0.003)


def promise(name: str, seconds: float) -> Slo:
    """95 % of the first tokens, or 99 % of the gaps."""
    if name == "ttft":
        return Slo(name, "chat", "ttft", "engine", 0.95, MONTH, PAIRS, seconds)
    return Slo(name, "chat", "itl", "engine", 0.99, MONTH, PAIRS, seconds)


def standing(slo: Slo) -> SloStatus:
    return SloStatus(slo, "ok", (), Budget(None, Counts(), 0.0), None)


def split_fleet(
    prefill: int, decode: int, rate: Callable[[float], float], slos: tuple[Slo, ...], **more: object
) -> WatchedFleet:
    """Watched every 15 s; one tick when `go` is over."""
    link = Link(first_post_seconds=0.0, slowdown=more.pop("slowdown", 1.0))  # type: ignore[arg-type]
    settings = {"plant": PLANT, "prompts": CHAT, "ticks_every": float("inf"), "reads_every": 15.0, **more}
    return WatchedFleet(rate, 0, topology=Topology(0, prefill, decode, link=link), slos=slos, **settings)  # type: ignore[arg-type]


def scene_of(fleet: WatchedFleet) -> Scene:
    """The scene of the newest tick."""
    seen = fleet.effects[-1].snapshot
    return Scene(fleet.plan, seen.targets, seen.slos, fleet.memory.windows, seen.at_seconds)


def empty_scene(*slos: Slo) -> Scene:
    return Scene(Plan(slos), (), [standing(slo) for slo in slos], Windows(), 0.0)


def pools(
    prefill: int, decode: int, rate: float, *, output_tokens: float = 300.0, peak: float | None = None,
    transfer: Transfer = QUICK, hit_ratio: float = 0.0,
) -> Pools:  # fmt: skip
    names = [TargetStatus(f"v{i}", "vllm", "up", 0.0, "ok", "", "m", "") for i in range(prefill + decode)]
    load = Load(1500.0, output_tokens, rate=rate, spread_ratio=0.3, hit_ratio=hit_ratio)
    return Pools("m", names[:prefill], names[prefill:], ENGINE, load, peak, transfer)
