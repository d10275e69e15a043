"""An agent's core, meant to be killed: reads an engine that works by the clock, ticks, saves, again and again."""

import asyncio
import sys
import time
from pathlib import Path

from fake_engine import FakeEngine

from agent.burn_windows import standard_pairs
from agent.config import Config
from agent.keeping import Keeper
from agent.model import Slo
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.tick import tick

T0, MONTH = 1_800_000_000.0, 30 * 86_400.0
PER_SECOND = 7


def engine_at(at: float, per_second: float = PER_SECOND) -> FakeEngine:
    """The engine as it stands at this moment: one request of two was too slow, always."""
    engine = FakeEngine(started_at_seconds=T0 - 5 * 86_400, running=2)
    done = int((at - T0 + 5 * 86_400) * per_second)
    engine.finish(done - done // 2)
    engine.finish(done // 2, ttft=7.0, e2e=9.0)
    return engine


def plan(objective: float = 0.99, threshold: float = 2.5) -> Plan:
    slo = Slo("ttft", "chat", "ttft", "engine", objective, MONTH, standard_pairs(MONTH), threshold)
    return Plan((slo,), {"vllm-0": TargetFacts("m", "aggregated", None)})


def config(path: Path) -> Config:
    return Config.model_validate({"state": {"path": path}})


async def live(path: Path) -> None:
    """A reading each few milliseconds, of a clock that runs a thousand times as fast, and a save after each third."""
    keeper = Keeper(config(path).state)
    memory = keeper.open(plan(), now())
    sys.stdout.write("goes\n")
    sys.stdout.flush()
    step = 0
    while True:
        at = now()
        memory.windows.take(engine_at(at).reading(at))
        effects = tick(plan(), memory, at)
        if step % 3 == 0 or effects.changed_alerts:
            await keeper.save(memory, plan(), at)
        step += 1
        await asyncio.sleep(0.002)


def now() -> float:
    return T0 + (time.time() % 1e6) * 1000


if __name__ == "__main__":
    asyncio.run(live(Path(sys.argv[1])))
