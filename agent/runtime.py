"""The shell: sessions, jobs and outputs around the tick."""

import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from agent.alert_lines import log_alert
from agent.canaries import Canaries
from agent.config import Config
from agent.config_file import load_config
from agent.config_watching import Target
from agent.discovering import Discovering
from agent.errors import AgentError, ConfigError
from agent.jobs import Job, Jobs
from agent.keeping import Keeper
from agent.living import LivingView
from agent.model import Effects
from agent.outputs.self_metrics import SelfMetrics
from agent.planning import canary_targets, config_hash, make_plan, page_target
from agent.rehydrating import rehydrated
from agent.span_log import attributed
from agent.tape import Tape
from agent.tick import Memory, tick
from probes.canary.item import CanaryItem
from probes.canary.process import CanaryProcess
from probes.clock import Clock
from probes.discovery.source import TargetSource
from probes.nvml import GpuReader, load_nvml
from probes.nvml_events import XidWatch
from probes.own_thread import in_own_thread
from probes.pod_of_process import HostProcesses
from probes.recording import RecordingWriter
from probes.sample import ProbeResult
from probes.scrape import Scraper
from probes.spans.result import SpanResult
from probes.systems import ASKABLE

log = logging.getLogger(__name__)

NEEDS_RESTART = ("node", "gpu", "alertmanager", "outputs", "state", "server")  # parts a reload leaves alone


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
        self.tape = Tape(listeners.recorder)
        self._discovering = Discovering(config)
        self._targets = self._discovering.targets()
        plan = make_plan(config, self._targets)
        self.view = LivingView(config, plan, Memory(), clock)
        self._scrapers: dict[str, Scraper] = {}
        self._canary = CanaryProcess(clock)
        self._canaries = Canaries(clock, self.view, self._canary)
        self._gpus: GpuReader | None = None
        self._further: dict[str, tuple[float, Callable[[], None]]] = {}
        self._session: aiohttp.ClientSession | None = None
        self._excluded: set[tuple[str, str]] = set()
        self._keeper = Keeper(config.state, metrics.delivered)
        self._jobs = Jobs(clock, self._run_skipped)

    def also_every(self, name: str, seconds: float, job: Callable[[], None]) -> None:
        """A further periodic job, such as an export; it runs on the event loop and must not wait."""
        self._further[name] = (seconds, job)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Agent"]:
        """The agent at work for as long as the context lasts; leaving it stops everything it started."""
        timeout = aiohttp.ClientTimeout(total=None)  # every look has its own, in the clock's seconds
        connector = aiohttp.TCPConnector(limit=0)  # one look a target is the limit: no target waits for another's
        async with aiohttp.ClientSession(timeout=timeout, connector=connector, trust_env=False) as session:
            self._session = session
            self._targets = await self._discovering.look_around(session)
            self.view.plan = make_plan(self.config, self._targets)
            memory = self._keeper.open(self.view.plan, self.clock.now_seconds())
            now = self.clock.now_seconds()
            self.view.memory = await rehydrated(memory, self.config, self.view.plan, self._targets, now)
            await self._open_gpus()
            try:
                await self._start_canaries()
                self.metrics.configured(self.view.version(), config_hash(self.config))
                self._schedule()
                self._jobs.start()
                log.info(
                    "agent started targets=%d slos=%d canaries=%d",
                    len(self._targets), len(self.config.slos), len(self.config.canaries),
                )  # fmt: skip
                yield self
            finally:
                await self._jobs.stop()
                if self._gpus is not None:
                    self._gpus.close()
                await self._save()
                self._keeper.close()
                await self._canary.stop()
                log.info("agent stopped")

    # -- what HTTP may ask for (agent.web.actions.Actions)

    async def reload(self) -> list[str]:
        """Take over the config file as it is now; its mistakes, one a line, when it has any: then nothing changes."""
        if self._path is None:
            return ["this agent was not started from a file: there is nothing to reload"]
        before, discovering = self.config, self._discovering
        try:
            assert self._session is not None  # noqa: S101  asked for while it runs
            found = Discovering(load_config(self._path), discovering)
            targets = await found.look_around(self._session)
            self.config, self._discovering = found.config, found
            self._apply_targets(targets)
        except AgentError as error:
            self.config, self._discovering = before, discovering
            mistakes = error.lines if isinstance(error, ConfigError) else [str(error)]
            log.warning("reload refused mistakes=%d", len(mistakes))
            return mistakes
        self.view.config = self.config
        self._scrapers.clear()
        self.metrics.configured(self.view.version(), config_hash(self.config))
        log.info("reloaded config_hash=%s", config_hash(self.config))
        left = [part for part in NEEDS_RESTART if getattr(before, part) != getattr(self.config, part)]
        if left:
            log.warning("reload leaves as they were, until a restart: %s", ", ".join(left))
        return []

    async def probe(self, url: str, model: str | None) -> ProbeResult | str:
        """One canary on request, in the canary process."""
        known = next((t for t in self._targets if t.url == url.rstrip("/")), None)
        return await self._canaries.ask(known or Target(name="asked-for", url=url), model, self.config)

    def take_spans(self, spans: Sequence[SpanResult]) -> None:
        """Keep finished requests: for the SLOs, for people, and in the recording."""
        ours, now = attributed(spans, self.view.plan.targets), self.clock.now_seconds()
        self.view.memory.windows.take_spans(ours, now)
        self.view.take_spans(ours)
        self.tape.keep_spans(now, ours)

    def target_urls(self) -> Mapping[str, str]:
        """Base addresses of the targets that answer requests."""
        return {target.name: target.url for target in self._targets if target.kind in ASKABLE}

    # -- jobs

    def _schedule(self) -> None:
        """The periodic jobs that the config and the targets of now ask for."""
        config = self.config
        jobs = {"tick": Job(config.tick_seconds, self._tick)}
        for target in self._targets:
            jobs[f"scrape/{target.name}"] = Job(config.scrape.interval_seconds, self._scrape, (target,))
        for number, canary in enumerate(config.canaries):
            for target in canary_targets(canary, self._targets):
                name = f"canary/{canary.kind}/{target.name}" + (f"/{number}" if number else "")
                jobs[name] = Job(canary.interval_seconds, self._probe, (canary, target, name))
        if self._keeper.save_seconds is not None:
            jobs["state"] = Job(self._keeper.save_seconds, self._save)
        if self._gpus is not None:
            jobs["gpu"] = Job(config.gpu.interval_seconds, self._read_gpus)
        for number, (item, source) in enumerate(self._discovering.pairs()):
            jobs[f"discovery/{item.kind}/{number}"] = Job(item.refresh_seconds, self._discover, (source,))
        jobs |= {name: Job(seconds, job) for name, (seconds, job) in self._further.items()}
        for name in jobs:
            self.metrics.job_planned(name)
        self._jobs.replace(jobs)

    async def _tick(self) -> None:
        self.metrics.loop_lagged(self._jobs.late_real_seconds("tick"))
        began = time.perf_counter()
        effects = tick(self.view.plan, self.view.memory, self.clock.now_seconds())
        self.view.last = effects.snapshot
        self.metrics.ticked("tick", time.perf_counter() - began)
        for alert in effects.changed_alerts:
            log_alert(alert)
        for slo, tier in self._newly_excluded(effects):
            log.info("alert suppressed by an exclusion slo=%s tier=%s", slo, tier)
        for advice in effects.changed_recommendations:
            log.info("recommendation id=%s verdict=%s summary=%r", advice.id, advice.verdict or "open", advice.summary)
        for listener in self.listeners.on_effects:
            try:
                listener(effects)
            except Exception:  # one output's fault is not the next one's
                log.exception("listener failed name=%s", getattr(listener, "__qualname__", listener))
        self.metrics.ticked("listeners", time.perf_counter() - began)
        if effects.changed_alerts:
            await self._save()

    def _newly_excluded(self, effects: Effects) -> list[tuple[str, str]]:
        """Burn pairs, by SLO, that an exclusion keeps from alerting since this tick."""
        before, self._excluded = (
            self._excluded,
            {
                (status.slo.name, f"{burn.pair.severity}/{burn.pair.tier}")
                for status in effects.snapshot.slos
                for burn in status.burns
                if burn.reason == "excluded"
            },
        )
        return sorted(self._excluded - before)

    async def _save(self) -> None:
        await self._keeper.save(self.view.memory, self.view.plan, self.clock.now_seconds())

    async def _scrape(self, target: Target) -> None:
        assert self._session is not None  # noqa: S101  jobs run inside the context
        at = page_target(self.config, target)  # anew each time: its token may have changed
        scraper = self._scrapers.get(target.name)
        if scraper is None:
            scraper = self._scrapers[target.name] = Scraper(at, self._session, self.clock)
        scraper.target = at
        scraped = await scraper.scrape()
        if target not in self._targets:
            return  # it went while we looked
        before = self.view.memory.windows.targets.get(target.name)
        if before is None or before.last_attempt.outcome != scraped.reading.outcome:
            log.info("target %s outcome=%s %s", target.name, scraped.reading.outcome, scraped.reading.detail)
        started_at = scraped.reading.process_start_seconds
        if before is not None and before.last_ok is not None and started_at != before.last_ok.process_start_seconds:
            self.view.canaries.restarted(target.name, started_at or scraped.reading.at_seconds)
        self.view.memory.windows.take(scraped.reading)
        self.metrics.scraped(scraped.reading)
        self.tape.keep_page(target, scraped.reading, scraped.body)

    async def _probe(self, canary: CanaryItem, target: Target, job: str) -> None:
        planned = self._jobs.planned_at_seconds(job)
        result = await self._canaries.run(canary, target, self.config, planned)
        if target in self._targets:
            self._take_probe(result)

    async def _read_gpus(self) -> None:
        assert self._gpus is not None  # noqa: S101  scheduled only then
        for reading, body in await self._gpus.read(self.clock.now_seconds()):
            self.view.memory.windows.take(reading)
            self.metrics.scraped(reading)
            if body:
                self.tape.keep_gpu(reading, body)

    async def _discover(self, source: TargetSource) -> None:
        assert self._session is not None  # noqa: S101  jobs run inside the context
        await self._discovering.refresh(self._session, [source])
        targets = self._discovering.targets()
        if targets != self._targets:
            self._apply_targets(targets)

    # -- helpers, in order of use

    def _apply_targets(self, targets: list[Target]) -> None:
        plan = make_plan(self.config, targets)
        gone = {target.name for target in self._targets} - {target.name for target in targets}
        for name in gone:
            self.view.memory.windows.forget(name)
            self._scrapers.pop(name, None)
            self.metrics.forget_target(name)
            self._canaries.gate.forget(name)
            self.view.canaries.forget(name)
        log.info("targets now=%d gone=%s", len(targets), ",".join(sorted(gone)) or "none")
        self._targets = targets
        self.view.plan = plan
        self._schedule()

    async def _start_canaries(self) -> None:
        try:
            await self._canary.start()
        except OSError as error:
            log.warning("canaries cannot start reason=%r; the next one tries again", error.strerror)

    async def _open_gpus(self) -> None:
        if self.config.gpu.enabled == "no":
            return
        library, why_not = await in_own_thread(load_nvml)
        if library is not None:
            host = HostProcesses(self.config.gpu.proc_path)
            self._gpus = GpuReader(library, XidWatch(library), host)
            if not host.is_host:
                log.info(
                    "gpu processes stay without pods: %s is not the host's; give hostPID, or gpu.proc_path", host.root
                )
        elif self.config.gpu.enabled == "yes":
            log.warning("gpu readings off reason=%r", why_not)

    def _take_probe(self, result: ProbeResult) -> None:
        self.view.memory.windows.take_probe(result)
        self.view.canaries.take(result)
        self.metrics.probed(result)
        self.tape.keep_probe(result)

    def _run_skipped(self, name: str, job: Job, planned_at_seconds: float) -> None:
        """A planned run that was not made. A canary that was not sent is a result too."""
        self.metrics.job_missed(name)
        if name.startswith("canary/"):
            canary, target, _ = job.arguments
            self._take_probe(self._canaries.missed(canary, target, planned_at_seconds))
