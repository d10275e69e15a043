"""The agent's side of the probing process: one result for every task, whatever becomes of the process."""

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from probes.canary.task import ProbeTask, unrun
from probes.canary.wire import read_result, task_line
from probes.clock import Clock, ScaledClock
from probes.sample import ProbeResult

_MAX_RESULT_BYTES: Final = 4 << 20
_STOP_REAL_SECONDS: Final = 2.0
# What a result may take beyond the task's total: the start of the process and its way back.
_GRACE_REAL_SECONDS: Final = 10.0


@dataclass(slots=True)
class CanaryProcess:
    """Starts the probing process, gives it tasks, and starts it again when it dies.

    Never two probes at once on one target: a second ask becomes "missed". A death makes the probes in flight
    "cancelled", with the reason. `probe` raises nothing but cancellation.
    """

    clock: Clock
    restarts_total: int = 0
    _process: asyncio.subprocess.Process | None = None
    _reading: asyncio.Task[None] | None = None
    _in_flight: dict[int, "_Flight"] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _restart: asyncio.Task[None] | None = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _is_stopped: bool = True

    async def start(self) -> None:
        """Start the process; does nothing when it runs already."""
        self._is_stopped = False
        await self._ensure_running()

    async def probe(self, task: ProbeTask) -> ProbeResult:
        """Have one task run now. The target is free again when the process has answered, even if nobody waits."""
        if self._is_stopped:
            return self._unrun(task, "cancelled", "the probe process is stopped")
        if any(_is_same_target(flight.task, task) for flight in self._in_flight.values()):
            return self._unrun(task, "missed", "the previous probe on this target still runs")
        number = next(self._numbers)
        flight = _Flight(task, asyncio.get_running_loop().create_future())
        self._in_flight[number] = flight
        limit = self.clock.real_seconds(task.total_timeout_seconds) + _GRACE_REAL_SECONDS
        try:
            async with asyncio.timeout(limit):
                process = await self._ensure_running()
                _stdin(process).write(task_line(number, task))
                return await asyncio.shield(flight.result)
        except TimeoutError:
            self._in_flight.pop(number, None)
            await self._kill()
            return self._unrun(task, "cancelled", "the probe process did not answer in time and was stopped")
        except OSError as error:
            self._in_flight.pop(number, None)
            return self._unrun(task, "cancelled", f"the probe process cannot be started: {type(error).__name__}")

    async def stop(self) -> None:
        """End the process; what is in flight becomes "cancelled". Safe to call twice."""
        async with self._starting:
            self._is_stopped = True
            process, reading = self._process, self._reading
        if process is None or reading is None:
            return
        _stdin(process).close()
        try:
            async with asyncio.timeout(_STOP_REAL_SECONDS):
                await asyncio.shield(reading)
        except TimeoutError:
            await self._kill()
        await process.wait()

    async def _ensure_running(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._process is not None and self._reading is not None and not self._reading.done():
                return self._process
            if self._is_stopped:
                raise ProcessLookupError
            self.restarts_total += self._process is not None
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "probes.canary.worker",
                *_clock_options(self.clock),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_MAX_RESULT_BYTES,
                start_new_session=True,  # Ctrl-C in a terminal is the parent's, from the first instant
            )
            self._reading = asyncio.create_task(self._read(self._process))
            return self._process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Hand out results until the process ends, then settle what it left behind and start the next one."""
        results = process.stdout
        has_answered = False
        with contextlib.suppress(ValueError):  # a line that is no result: the process is not what it should be
            while results is not None and (line := await results.readline()):
                number, result = read_result(line)
                has_answered = True
                flight = self._in_flight.pop(number, None)
                if flight is not None and not flight.result.done():
                    flight.result.set_result(result)
        code = await _ended(process)
        self._settle(f"the probe process ended with exit code {code}")
        if has_answered and not self._is_stopped:  # one that dies at once is started again by the next probe only
            self._restart = asyncio.create_task(self._start_again())

    async def _start_again(self) -> None:
        with contextlib.suppress(OSError):  # stopped meanwhile, or no room: the next probe tries and says so
            await self._ensure_running()

    def _settle(self, reason: str) -> None:
        flights, self._in_flight = self._in_flight, {}
        for flight in flights.values():
            if not flight.result.done():
                flight.result.set_result(self._unrun(flight.task, "cancelled", reason))

    async def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        if self._reading is not None:
            await self._reading

    def _unrun(self, task: ProbeTask, outcome: str, detail: str) -> ProbeResult:
        return unrun(task, outcome, self.clock.now_seconds(), detail)


@dataclass(frozen=True, slots=True)
class _Flight:
    task: ProbeTask
    result: asyncio.Future[ProbeResult]


def _is_same_target(one: ProbeTask, other: ProbeTask) -> bool:
    """Probes on request may share a name and differ in the address."""
    return (one.target, one.url) == (other.target, other.url)


async def _ended(process: asyncio.subprocess.Process) -> int:
    """Its exit code once it has ended: of its own accord, or killed when it only closed its output.

    The kill waits, because signalling a dead child takes its exit code away from whoever waits for it.
    """
    try:
        async with asyncio.timeout(_STOP_REAL_SECONDS):
            return await process.wait()
    except TimeoutError:
        process.kill()
        return await process.wait()


def _stdin(process: asyncio.subprocess.Process) -> asyncio.StreamWriter:
    if process.stdin is None:
        raise BrokenPipeError
    return process.stdin


def _clock_options(clock: Clock) -> list[str]:
    if not isinstance(clock, ScaledClock):
        return []
    return ["--speed", repr(clock.speed), "--epoch", repr(clock.epoch_seconds)]
