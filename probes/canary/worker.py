"""The process that times canaries, and does nothing else: tasks on stdin, results on stdout, one JSON line each.

Parsing pages, writing state and serving HTTP happen in another process and cannot move a token's time stamp.
"""

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from probes.canary.prober import Prober
from probes.canary.task import ProbeTask, unrun
from probes.canary.wire import read_task, result_line
from probes.clock import Clock, ScaledClock, SystemClock

_MAX_TASK_BYTES: Final = 4 << 20


@dataclass(slots=True)
class Worker:
    """Runs the tasks it is given side by side and writes one result for each, in the order they end."""

    prober: Prober
    write: Callable[[bytes], None]
    _running: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, tasks: asyncio.StreamReader) -> None:
        """Until the tasks end; what is in flight then becomes "cancelled"."""
        while line := await tasks.readline():
            number, task = read_task(line)
            running = asyncio.create_task(self._run(number, task))
            self._running.add(running)
            running.add_done_callback(self._forget)
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, number: int, task: ProbeTask) -> None:
        at_seconds = self.prober.clock.now_seconds()
        try:
            result = await self.prober.probe(task)
        except asyncio.CancelledError:
            result = unrun(task, "cancelled", at_seconds, "the probe process was told to stop")
        self.write(result_line(number, result))

    def _forget(self, running: asyncio.Task[None]) -> None:
        self._running.discard(running)
        if not self._running:
            gc.collect()  # garbage goes between probes, not during one


async def serve_pipes(clock: Clock) -> None:
    """Serve stdin and stdout of this process."""
    loop = asyncio.get_running_loop()
    tasks = asyncio.StreamReader(limit=_MAX_TASK_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(tasks), sys.stdin.buffer)
    worker = Worker(Prober(clock), _write)
    gc.collect()
    gc.freeze()
    gc.disable()
    await worker.serve(tasks)


def main() -> None:
    """`python -m probes.canary.worker [--speed S --epoch UNIX]`; without them, the machine's own time."""
    parser = argparse.ArgumentParser(description="Times canary requests; tasks on stdin, results on stdout.")
    parser.add_argument("--speed", type=float, help="how many times faster than the machine's the clock runs")
    parser.add_argument("--epoch", type=float, help="unix seconds at which both clocks show the same")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; it closes our stdin
    clock: Clock = SystemClock() if options.speed is None else ScaledClock(options.speed, options.epoch)
    asyncio.run(serve_pipes(clock))
    sys.stdout.flush()
    os._exit(0)  # a resolver's thread may hang in the name service; nobody waits for it


def _write(line: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):  # the parent is gone; stdin tells
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
