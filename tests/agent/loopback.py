"""Servers on the loopback address for tests of the running agent, a config for it, and patience."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry

from agent.config import Config
from agent.outputs.self_metrics import SelfMetrics
from agent.runtime import Agent, Listeners
from probes.clock import Clock, SystemClock

METRICS = 'vllm:generation_tokens_total{engine="0",model_name="m"} 7\n'
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Served:
    """A server's address and what it was asked."""

    port: int = 0
    asked: list[web.Request] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[Served]:
    """Every request goes to `handler`."""
    served = Served()

    async def handle(request: web.Request) -> web.StreamResponse:
        served.asked.append(request)
        served.in_flight += 1
        served.most_in_flight = max(served.most_in_flight, served.in_flight)
        try:
            return await handler(request)
        finally:
            served.in_flight -= 1

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.port = runner.addresses[0][1]
    try:
        yield served
    finally:
        await runner.cleanup()


def answers(text: str, status: int = 200, content_type: str = "text/plain") -> Handler:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text=text, status=status, content_type=content_type)

    return handler


async def never(_request: web.Request) -> web.Response:
    await asyncio.sleep(3600)
    raise AssertionError("unreachable")


def config(**parts: Any) -> Config:
    """A quick config: pages every 0.1 s, a tick every 0.1 s, no GPUs, no canaries."""
    quick: dict[str, Any] = {
        "tick_seconds": 0.1,
        "scrape": {"interval_seconds": 0.1, "timeout_seconds": 0.1},
        "gpu": {"enabled": "no"},
        "canaries": [],
        "server": {"listen": "127.0.0.1:0"},
    }
    return Config.model_validate(quick | parts)


def target(name: str, url: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "url": url, **fields}


def agent(
    of: Config, clock: Clock | None = None, *, listeners: Listeners | None = None, path: Path | None = None
) -> Agent:
    return Agent(of, clock or SystemClock(), SelfMetrics(CollectorRegistry()), listeners or Listeners(), path)


async def until(condition: Callable[[], bool], what: str, patience_seconds: float = 20.0) -> None:
    """Wait until it holds; a machine under load gets its time, and a broken agent a sentence."""
    deadline = time.monotonic() + patience_seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {patience_seconds:g} s in vain until {what}"
        await asyncio.sleep(0.02)


def outcomes(of: Agent) -> dict[str, str]:
    """The last look at each target."""
    return {name: log.last_attempt.outcome for name, log in of.view.memory.windows.targets.items()}


def points(of: Agent, metric: str) -> dict[tuple[str, ...], float]:
    """The agent's own metric by its labels."""
    return {point.labels: point.value for point in of.metrics.points() if point.metric.name == metric}  # type: ignore[union-attr]


def child_pids() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def open_sockets() -> int:
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            count += str(descriptor.readlink()).startswith("socket:")
    return count
