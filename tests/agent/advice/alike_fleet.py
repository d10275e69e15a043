"""Replicas of one service that should be alike, on the slow plant of split_fleet.py, and what a router does to them."""

from collections.abc import Callable

from split_fleet import LAW
from watched_fleet import T0, WatchedFleet

from agent.model import Recommendation
from agent.simulator.arrivals import Arrivals
from agent.simulator.conversations import Conversations, Habits
from agent.simulator.engine import EngineConfig
from agent.simulator.lengths import LogNormal
from agent.simulator.plant import Plant
from agent.simulator.router import RoundRobin, Router
from agent.simulator.seeds import stream
from agent.simulator.topology import Topology

PLANT = Plant(EngineConfig(model="m", max_num_batched_tokens=2048, num_gpu_blocks=18_750), law=lambda _: LAW)
TALK = Habits(
    system_tokens=256,
    user_tokens=LogNormal(300, 0.5, 2000, 4),
    answer_tokens=LogNormal(60, 0.5, 300, 8),
    mean_turns=8.0,
    mean_pause_seconds=20.0,
)


def alike_fleet(replicas: int, rate: float, router: Callable[[], Router] = RoundRobin, **more: object) -> WatchedFleet:
    """Watched every 15 s; one tick when `go` is over."""
    settings = {"plant": PLANT, "ticks_every": float("inf"), "reads_every": 15.0, **more}
    return WatchedFleet(lambda _: rate, replicas, topology=Topology(replicas, router=router), **settings)  # type: ignore[arg-type]


def conversations(rate: float) -> Conversations:
    """So many begin a second; each goes on eight turns, and carries all that was said."""
    return Conversations(Arrivals(lambda _: rate, stream(1, "arrivals"), T0), TALK, stream(1, "prompts"))


def said(fleet: WatchedFleet, action: str) -> list[Recommendation]:
    return [entry for entry in fleet.memory.ledger.entries if entry.action == action]
