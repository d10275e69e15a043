"""A memory that is gone, read again out of a Prometheus that scraped the same engines."""

import asyncio
import logging
from collections.abc import Sequence

from agent.config import Config
from agent.config_watching import Target
from agent.model import Slo
from agent.plan import Plan
from agent.prometheus_source import open_history
from agent.sli.count import count_events
from agent.slo.period import budget_period
from agent.tick import Memory
from probes.prometheus.api import PrometheusError

log = logging.getLogger(__name__)

FINE_SECONDS = 6 * 3600.0  # so long counts are kept in their finest buckets: every sample of it is read
COARSE_STEP_SECONDS = 300.0  # older ones are kept in buckets of five minutes
PATIENCE_SECONDS = 300.0  # then the agent begins without; it watches nothing meanwhile


async def rehydrated(
    memory: Memory, config: Config, plan: Plan, targets: Sequence[Target], now_seconds: float
) -> Memory:
    """The memory with the engines' events of the longest period, where it has none and the config wants that.

    Canaries and spans are in no Prometheus. Where the history reaches back over the whole period of every SLO, and all
    of them count from engines, a memory that was lost is lost no more. A history that cannot be read is told in the
    log, and the memory stays as it was. Never raises.
    """
    url = config.prometheus.url
    if config.state is None or not config.state.rehydrate or url is None or memory.windows.events or not plan.slos:
        return memory
    longest = now_seconds - min(_began_seconds(slo, now_seconds) for slo in plan.slos)
    log.info("state is read from prometheus url=%s days=%.1f", url, longest / 86_400)
    found = Memory(lost_at_seconds=memory.lost_at_seconds)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            readings = await _read(found, config, plan, targets, url, (now_seconds - longest, now_seconds))
    except TimeoutError:
        log.warning("state not read from prometheus reason='not done within %.0f s'", PATIENCE_SECONDS)
        return memory
    except PrometheusError as error:
        log.warning("state not read from prometheus reason=%r", str(error))
        return memory
    if _is_whole(found, plan, now_seconds):
        found.lost_at_seconds = None
    found.windows.restored_at_seconds = now_seconds
    log.info("state read from prometheus readings=%d targets=%d", readings, len(found.windows.targets))
    return found


async def _read(
    found: Memory, config: Config, plan: Plan, targets: Sequence[Target], url: str, stretch: tuple[float, float]
) -> int:
    """How many readings there were."""
    start, end = stretch
    edge, readings = max(start, end - FINE_SECONDS), 0
    async with open_history(config, url, targets=targets) as history:
        await history.look_around(start, end)
        for begin, until, step in ((start, edge, COARSE_STEP_SECONDS), (edge, end, None)):
            if begin >= until:
                continue
            async for piece in history.pieces(begin, until, step):
                for reading in piece.readings:
                    if reading.target in plan.targets:
                        found.windows.take(reading)
                        readings += 1
                count_events(plan.slos, plan.targets, found.windows, found.pending)
                await asyncio.sleep(0)
    return readings


def _is_whole(memory: Memory, plan: Plan, now_seconds: float) -> bool:
    """Whether every event of every SLO's period was read: within a coarse step."""
    for slo in plan.slos:
        began = memory.windows.events[slo.name].began_at_seconds
        if (
            slo.source != "engine"
            or began is None
            or began > _began_seconds(slo, now_seconds) + 2 * COARSE_STEP_SECONDS
        ):
            return False
    return True


def _began_seconds(slo: Slo, now_seconds: float) -> float:
    """Since when its events are needed: a calendar period may be longer than usual, and burn windows roll."""
    return min(now_seconds - slo.period_seconds, budget_period(slo, now_seconds).start_seconds)
