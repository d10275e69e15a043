"""The agent with everything around it: page, /metrics, Alertmanager, OTLP, JSON lines; until told to stop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web
from prometheus_client import CollectorRegistry

from agent.config import Config
from agent.config_outputs import Server
from agent.errors import AddressTakenError
from agent.model import Effects
from agent.outputs.alertmanager import AlertmanagerOutput
from agent.outputs.jsonl import JsonlOutput
from agent.outputs.kubernetes import KubernetesOutput
from agent.outputs.otlp import OtlpExport
from agent.outputs.prometheus import ViewCollector
from agent.outputs.self_metrics import SelfMetrics
from agent.outputs.webhook import WebhookOutput
from agent.receiving import receive_spans
from agent.runtime import Agent, Listeners
from agent.web.server import make_app
from probes.clock import Clock
from probes.recording import RecordingWriter


@dataclass(frozen=True, slots=True)
class Extras:
    """What demo and record add to a plain run."""

    path: Path | None = None
    recorder: RecordingWriter | None = None
    note: str | None = None
    on_effects: tuple[Callable[[Effects], None], ...] = ()


@contextlib.asynccontextmanager
async def serving(config: Config, clock: Clock, extras: Extras) -> AsyncIterator[Agent]:
    """A whole agent for as long as the context lasts. Raises UsageError when its address is taken."""
    registry = CollectorRegistry()
    metrics = SelfMetrics(registry)
    async with aiohttp.ClientSession(trust_env=False) as session, contextlib.AsyncExitStack() as stack:
        alertmanager = AlertmanagerOutput(
            config.alertmanager, session, clock, node=config.node, delivered=metrics.delivered
        )
        listeners = [alertmanager.update, *extras.on_effects]
        if config.outputs.jsonl is not None:
            listeners.append(JsonlOutput(config.outputs.jsonl, delivered=metrics.delivered).write)
        for told in _advice_outputs(config, session, clock, metrics):
            listeners.append(told.update)
            stack.callback(asyncio.create_task(told.run()).cancel)
        agent = Agent(config, clock, metrics, Listeners(tuple(listeners), extras.recorder), extras.path)
        ViewCollector(agent.view, registry, with_aliases=config.outputs.aliases)
        runner = await _listen(
            config.server, make_app(agent.view, registry, agent, note=extras.note, alertmanagers=_told(config, extras))
        )
        stack.push_async_callback(runner.cleanup)
        receiver = await receive_spans(config.spans, agent, session)
        stack.push_async_callback(receiver.stop)
        if config.outputs.otlp is not None:
            otlp = OtlpExport(config.outputs.otlp, agent.view, metrics, node=config.node)
            stack.push_async_callback(otlp.stop)
            agent.also_every("otlp", config.outputs.otlp.interval_seconds, otlp.push)
        stack.push_async_callback(_end_posting, asyncio.create_task(alertmanager.run()), alertmanager)
        await stack.enter_async_context(agent.running())
        yield agent


def _advice_outputs(
    config: Config, session: aiohttp.ClientSession, clock: Clock, metrics: SelfMetrics
) -> Iterator[WebhookOutput | KubernetesOutput]:
    outputs = config.outputs
    if outputs.webhook is not None:
        source = outputs.page_url or "slo-agent"
        yield WebhookOutput(outputs.webhook, session, clock, source=source, delivered=metrics.delivered)
    if outputs.kubernetes is not None:
        yield KubernetesOutput(outputs.kubernetes, session, clock, delivered=metrics.delivered)


async def _end_posting(posting: asyncio.Task[None], alertmanager: AlertmanagerOutput) -> None:
    posting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await posting
    await alertmanager.drain()


def _told(config: Config, extras: Extras) -> list[str] | None:
    """Who is paged, for the page's warning when nobody is; None where that is nobody's worry (a demo)."""
    return None if extras.note else config.alertmanager.urls


async def _listen(server: Server, app: web.Application) -> web.AppRunner:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, server.host, server.port).start()
    except (OSError, OverflowError) as error:
        await runner.cleanup()
        reason = str(error.strerror).rpartition(": ")[2] if isinstance(error, OSError) else "a port is at most 65535"
        raise AddressTakenError(server.listen, reason) from None
    return runner
