"""Periodic jobs: each at its own phase, never twice at once, every planned run either made or told as skipped.

The one module that knows APScheduler.
"""

import asyncio
import hashlib
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.events import EVENT_JOB_MAX_INSTANCES, JobSubmissionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from probes.clock import Clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """What runs every `seconds` of the clock, on the event loop; one that is not `async` must not wait."""

    seconds: float
    run: Callable[..., Awaitable[None] | None]
    arguments: tuple[Any, ...] = ()


class Jobs:
    """Runs jobs by name. `on_skipped(name, job, planned_at_seconds)` hears of every planned run that was not made."""

    def __init__(self, clock: Clock, on_skipped: Callable[[str, Job, float], None]) -> None:
        self._clock = clock
        self._on_skipped = on_skipped
        self._jobs: dict[str, Job] = {}
        self._planned: dict[str, float] = {}  # machine's unix time of the last run that was made or told
        self._running: set[asyncio.Task[Any]] = set()
        self._scheduler = AsyncIOScheduler(timezone=UTC)
        self._scheduler.add_listener(self._hear_skipped, EVENT_JOB_MAX_INSTANCES)

    def start(self) -> None:
        """Begin; call it inside the event loop."""
        self._scheduler.start()

    async def stop(self) -> None:
        """End; what runs is cancelled and waited for."""
        self._jobs.clear()
        self._scheduler.remove_all_jobs()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def replace(self, wanted: Mapping[str, Job]) -> None:
        """Run these and no others. A job that stays as it was keeps its phase, so that changes delay nobody else."""
        for name in [name for name, job in self._jobs.items() if wanted.get(name) != job]:
            del self._jobs[name]
            self._planned.pop(name, None)
            self._scheduler.remove_job(name)
        for name, job in wanted.items():
            if name not in self._jobs:
                self._jobs[name] = job
                self._add(name, job)

    def planned_at_seconds(self, name: str) -> float:
        """When the run that is now under way was planned, in the clock's time."""
        return self._in_clock_time(self._planned.get(name, time.time()))

    def late_real_seconds(self, name: str) -> float:
        """How much later than planned the run that is now under way has begun, in the machine's seconds."""
        return max(0.0, time.time() - self._planned.get(name, time.time()))

    def _add(self, name: str, job: Job) -> None:
        interval = self._clock.real_seconds(job.seconds)
        phase = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
        first = datetime.now(UTC) + timedelta(seconds=interval * phase)
        self._scheduler.add_job(
            self._run, "interval", args=(name,), id=name, seconds=interval, next_run_time=first,
            max_instances=1, coalesce=True, misfire_grace_time=None,
        )  # fmt: skip

    async def _run(self, name: str) -> None:
        job, task = self._jobs.get(name), asyncio.current_task()
        if job is None or task is None:
            return  # it was taken out in this very moment
        entry = self._scheduler.get_job(name)
        if entry is not None and entry.next_run_time is not None:
            self._reach(name, job, entry.next_run_time.timestamp() - self._clock.real_seconds(job.seconds))
        self._running.add(task)
        try:
            waiting = job.run(*job.arguments)
            if inspect.isawaitable(waiting):
                await waiting
        except asyncio.CancelledError:
            log.debug("job stopped name=%s", name)  # swallowed: the scheduler would call it an error
        except Exception:
            log.exception("job failed name=%s", name)
        finally:
            self._running.discard(task)

    def _hear_skipped(self, event: JobSubmissionEvent) -> None:
        """The run before is still under way."""
        job = self._jobs.get(event.job_id)
        if job is None:
            return
        planned = event.scheduled_run_times[-1].timestamp()
        self._reach(event.job_id, job, planned)
        self._on_skipped(event.job_id, job, self._in_clock_time(planned))

    def _reach(self, name: str, job: Job, planned: float) -> None:
        """This planned run's turn has come; those between the last one and this had none, because nobody had time."""
        before = self._planned.get(name, planned)
        self._planned[name] = planned
        interval = self._clock.real_seconds(job.seconds)
        for number in range(1, round((planned - before) / interval)):
            self._on_skipped(name, job, self._in_clock_time(before + number * interval))

    def _in_clock_time(self, machine_seconds: float) -> float:
        ago = max(0.0, time.time() - machine_seconds)
        return self._clock.now_seconds() - ago / self._clock.real_seconds(1.0)
