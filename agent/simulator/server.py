"""The simulator over HTTP: one port per replica, as a pod has its own address."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from agent.simulator import file_sd
from agent.simulator.control_api import ControlApi
from agent.simulator.fleet import Fleet
from agent.simulator.openai_api import OpenAiApi
from agent.simulator.real_time import RealTime
from agent.simulator.span_exporter import SpanExporter
from agent.simulator.tier import CacheTier
from probes.clock import Clock

SHUTDOWN_SECONDS = 1.0  # real; a pod that goes does not wait for its streams for ever


@dataclass(slots=True)
class SimulatorServer:
    """Serves a fleet at `port`, `port + 1`, ...; the control routes live on the first of them.

    `file_sd_path`, where given, always names the replicas that take requests.
    """

    fleet: Fleet
    clock: Clock
    host: str
    port: int
    service: str = "chat"
    file_sd_path: Path | None = None
    tiers: tuple[CacheTier, ...] = ()
    otlp_endpoint: str | None = None
    _real_time: RealTime = field(init=False)
    _runners: dict[int, web.AppRunner] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._real_time = RealTime(self.fleet, self.clock)

    async def run(self) -> None:
        """Serve until cancelled."""
        exporting: asyncio.Task[None] | None = None
        try:
            if self.otlp_endpoint:
                exporter = SpanExporter(self.otlp_endpoint)
                self.fleet.listen(exporter.add)
                exporting = asyncio.create_task(exporter.run())
            await self._listen(0)
            await self._real_time.run(self._follow)
        finally:
            if exporting is not None:
                exporting.cancel()
            await asyncio.gather(*(runner.cleanup() for runner in self._runners.values()))

    async def _follow(self) -> None:
        """Open the ports of those that came up, close those of the ones that went, and tell file_sd."""
        answering = {replica.index for replica in self.fleet.replicas if replica.phase in ("ready", "draining")}
        for index in sorted(answering - self._runners.keys()):
            await self._listen(index)
        for index in sorted(self._runners.keys() - answering - {0}):
            await self._runners.pop(index).cleanup()
        if self.file_sd_path is not None:
            file_sd.write(self.file_sd_path, file_sd.targets(self.fleet.ready, self.host, self.port, self.service))

    async def _listen(self, index: int) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.add_routes(OpenAiApi(self._real_time, index).routes())
        if index == 0:
            app.add_routes(ControlApi(self._real_time, self.tiers).routes())
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS, access_log=None)
        await runner.setup()
        self._runners[index] = runner
        await web.TCPSite(runner, self.host, self.port + index).start()
