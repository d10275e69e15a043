"""The shell: sessions, jobs and outputs around the tick. The one module that runs APScheduler."""

import asyncio
import contextlib
import functools
import hashlib
import inspect
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from agent.config import ChatCanary, Config, Target
from agent.config_file import load_config
from agent.errors import ConfigError
from agent.living import LivingView
from agent.model import Effects
from agent.outputs.self_metrics import SelfMetrics
from agent.planning import all_targets, canary_targets, config_hash, make_plan, page_target, probe_task
from agent.tick import Memory, tick
from probes.canary.process import CanaryProcess
from probes.canary.task import unrun
from probes.clock import Clock
from probes.discovery.file import FileTargets
from probes.nvml import GpuReader, load_nvml
from probes.recording import RecordingWriter
from probes.sample import ProbeResult
from probes.scrape import Scraper

log = logging.getLogger(__name__)

GRACE_SECONDS = 1.0  # a job that starts later than this is told as late, not run twice


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who hears what the agent does. Each is called on the event loop and must not wait."""

    on_effects: tuple[Callable[[Effects], None], ...] = ()
    recorder: RecordingWriter | None = None


class Agent:
    """Watches, ticks and tells, until stopped. Times in the config are seconds of `clock`."""

    def __init__(
        self, config: Config, clock: Clock, metrics: SelfMetrics, listeners: Listeners, path: Path | None = None
    ) -> None:
        self.config = config
        self.clock = clock
        self.metrics = metrics
        self.listeners = listeners
        self._path = path
        self._files = [FileTargets(source.path) for source in config.discovery]
        self._targets = self._current_targets()
        plan = make_plan(config, self._targets)
        self.view = LivingView(config, plan, Memory(), clock)
        self._scrapers: dict[str, Scraper] = {}
        self._canary = CanaryProcess(clock)
        self._gpus: GpuReader | None = None
        self._further: dict[str, tuple[float, Callable[[], None]]] = {}
        self._session: aiohttp.ClientSession | None = None
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._scheduler.add_listener(self._job_skipped, EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)

    def also_every(self, name: str, seconds: float, job: Callable[[], None]) -> None:
        """A further periodic job, such as an export; it runs on the event loop and must not wait."""
        self._further[name] = (seconds, job)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Agent"]:
        """The agent at work for as long as the context lasts; leaving it stops everything it started."""
        timeout = aiohttp.ClientTimeout(total=None)  # every look has its own, in the clock's seconds
        connector = aiohttp.TCPConnector(limit=100, limit_per_host=2)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=False) as session:
            self._session = session
            self._open_gpus()
            await self._canary.start()
            self.metrics.configured(self.view.version(), config_hash(self.config))
            self._schedule()
            self._scheduler.start()
            log.info(
                "agent started targets=%d slos=%d canaries=%d",
                len(self._targets), len(self.config.slos), len(self.config.canaries),
            )  # fmt: skip
            try:
                yield self
            finally:
                self._scheduler.shutdown(wait=False)
                await self._canary.stop()
                log.info("agent stopped")

    # -- what HTTP may ask for (agent.web.actions.Actions)

    async def reload(self) -> list[str]:
        """Take over the config file as it is now; its mistakes, one a line, when it has any: then nothing changes."""
        if self._path is None:
            return ["this agent was not started from a file: there is nothing to reload"]
        try:
            config = load_config(self._path)
        except ConfigError as error:
            log.warning("reload refused mistakes=%d", len(error.lines))
            return error.lines
        self.config = self.view.config = config
        self._files = [FileTargets(source.path) for source in config.discovery]
        self._scrapers.clear()
        self._apply_targets(self._current_targets())
        self.metrics.configured(self.view.version(), config_hash(config))
        log.info("reloaded config_hash=%s", config_hash(config))
        return []

    async def probe(self, url: str, model: str | None) -> ProbeResult | str:
        """One canary on request, in the canary process."""
        known = next((t for t in self._targets if t.url == url.rstrip("/")), None)
        canary = next(iter(self.config.canaries), ChatCanary())
        target = known or Target(name="asked-for", url=url)
        task = probe_task(canary, target, model or self._model_of(target.name), self.clock.now_seconds())
        return await self._canary.probe(task)

    def target_urls(self) -> Mapping[str, str]:
        """Base addresses of the vLLM targets."""
        return {target.name: target.url for target in self._targets if target.kind == "vllm"}

    # -- jobs

    def _schedule(self) -> None:
        """All periodic jobs anew, each with its own phase, so that they do not run in step."""
        self._scheduler.remove_all_jobs()
        config = self.config
        self._every("tick", config.tick_seconds, self._tick)
        for target in self._targets:
            self._every(f"scrape/{target.name}", config.scrape.interval_seconds, self._scrape, target)
        for canary in config.canaries:
            for target in canary_targets(canary, self._targets):
                self._every(f"canary/{canary.kind}/{target.name}", canary.interval_seconds, self._probe, canary, target)
        if self._gpus is not None:
            self._every("gpu", config.gpu.interval_seconds, self._read_gpus)
        if config.discovery:
            refresh = min(source.refresh_seconds for source in config.discovery)
            self._every("discovery", refresh, self._discover)
        for name, (seconds, job) in self._further.items():
            self._every(name, seconds, job)

    def _every(self, name: str, seconds: float, job: Callable[..., Awaitable[None] | None], *arguments: Any) -> None:
        interval = self.clock.real_seconds(seconds)
        phase = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
        first = datetime.now(UTC) + timedelta(seconds=interval * phase)
        self.metrics.job_planned(name)
        self._scheduler.add_job(
            _until_stopped(job), "interval", args=(*arguments,), id=name, seconds=interval, next_run_time=first,
            max_instances=1, coalesce=True, misfire_grace_time=max(1, int(interval + GRACE_SECONDS)),
        )  # fmt: skip

    async def _tick(self) -> None:
        self.metrics.loop_lagged(self._late_real_seconds("tick", self.config.tick_seconds))
        began = time.perf_counter()
        effects = tick(self.view.plan, self.view.memory, self.clock.now_seconds())
        self.view.last = effects.snapshot
        self.metrics.ticked("tick", time.perf_counter() - began)
        for alert in effects.changed_alerts:
            _log_alert(alert.is_firing, dict(alert.labels), alert.annotations.get("summary", ""))
        for advice in effects.changed_recommendations:
            log.info("recommendation id=%s verdict=%s summary=%r", advice.id, advice.verdict or "open", advice.summary)
        for listener in self.listeners.on_effects:
            listener(effects)
        self.metrics.ticked("listeners", time.perf_counter() - began)

    async def _scrape(self, target: Target) -> None:
        assert self._session is not None  # noqa: S101  jobs run inside the context
        scraper = self._scrapers.get(target.name)
        if scraper is None:
            scraper = Scraper(page_target(self.config, target), self._session, self.clock)
            self._scrapers[target.name] = scraper
        scraped = await scraper.scrape()
        if target not in self._targets:
            return  # it went while we looked
        before = self.view.memory.windows.targets.get(target.name)
        if before is None or before.last_attempt.outcome != scraped.reading.outcome:
            log.info("target %s outcome=%s %s", target.name, scraped.reading.outcome, scraped.reading.detail)
        self.view.memory.windows.take(scraped.reading)
        self.metrics.scraped(scraped.reading)
        if self.listeners.recorder is not None:
            self.listeners.recorder.write_scrape(scraped.reading, scraped.body)

    async def _probe(self, canary: ChatCanary, target: Target) -> None:
        planned = self._planned_at(f"canary/{canary.kind}/{target.name}", canary.interval_seconds)
        self._take_probe(await self._canary.probe(probe_task(canary, target, self._model_of(target.name), planned)))

    async def _read_gpus(self) -> None:
        assert self._gpus is not None  # noqa: S101  scheduled only then
        for reading, body in await self._gpus.read(self.clock.now_seconds()):
            self.view.memory.windows.take(reading)
            self.metrics.scraped(reading)
            if self.listeners.recorder is not None and body:
                self.listeners.recorder.write_gpu(reading.at_seconds, reading.target, body)

    async def _discover(self) -> None:
        targets = self._current_targets()
        if targets != self._targets:
            self._apply_targets(targets)

    # -- helpers, in order of use

    def _current_targets(self) -> list[Target]:
        found = [endpoint for file in self._files for endpoint in file.look()]
        for file in self._files:
            if file.trouble:
                log.warning("discovery trouble %s", file.trouble)
        return all_targets(self.config, found)

    def _apply_targets(self, targets: list[Target]) -> None:
        gone = {target.name for target in self._targets} - {target.name for target in targets}
        for name in gone:
            self.view.memory.windows.forget(name)
            self._scrapers.pop(name, None)
            self.metrics.forget_target(name)
        log.info("targets now=%d gone=%s", len(targets), ",".join(sorted(gone)) or "none")
        self._targets = targets
        self.view.plan = make_plan(self.config, targets)
        self._schedule()

    def _open_gpus(self) -> None:
        if self.config.gpu.enabled == "no":
            return
        library, why_not = load_nvml()
        if library is not None:
            self._gpus = GpuReader(library)
        elif self.config.gpu.enabled == "yes":
            log.warning("gpu readings off reason=%r", why_not)

    def _model_of(self, name: str) -> str | None:
        known = self.view.memory.windows.targets.get(name)
        return known.model or None if known else None

    def _planned_at(self, job_id: str, interval_seconds: float) -> float:
        """When the run that is now under way was planned, in the clock's time."""
        late = self._late_real_seconds(job_id, interval_seconds)
        return self.clock.now_seconds() - late / self.clock.real_seconds(1.0)

    def _late_real_seconds(self, job_id: str, interval_seconds: float) -> float:
        """How much later than planned the run that is now under way has begun, in the machine's seconds."""
        job = self._scheduler.get_job(job_id)
        if job is None or job.next_run_time is None:
            return 0.0
        planned: float = job.next_run_time.timestamp() - self.clock.real_seconds(interval_seconds)
        return max(0.0, time.time() - planned)

    def _take_probe(self, result: ProbeResult) -> None:
        self.view.memory.windows.take_probe(result)
        self.view.canaries.take(result)
        self.metrics.probed(result)
        if self.listeners.recorder is not None:
            self.listeners.recorder.write_probe(result)

    def _job_skipped(self, event: JobExecutionEvent) -> None:
        """A run that the scheduler left out. A canary that was not sent is a result too."""
        self.metrics.job_missed(event.job_id)
        job = self._scheduler.get_job(event.job_id)
        if job is not None and event.job_id.startswith("canary/"):
            canary, target = job.args
            now = self.clock.now_seconds()
            task = probe_task(canary, target, self._model_of(target.name), now)
            self._take_probe(unrun(task, "missed", now, "the one before was still running"))


def _until_stopped(job: Callable[..., Awaitable[None] | None]) -> Callable[..., Awaitable[None] | None]:
    """The job; APScheduler would log its cancellation, which is our own stop, as an error with a traceback."""
    if not inspect.iscoroutinefunction(job):
        return job

    @functools.wraps(job)
    async def run(*arguments: Any) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await job(*arguments)

    return run


def _log_alert(is_firing: bool, labels: dict[str, str], summary: str) -> None:  # noqa: FBT001  a log line's two forms
    fields = " ".join(f"{key}={value}" for key, value in labels.items())
    if is_firing:
        log.warning("alert firing %s summary=%r", fields, summary)
    else:
        log.warning("alert resolved %s", fields)
