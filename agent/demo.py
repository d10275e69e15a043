"""The demo: the agent, unchanged, on the embedded simulator; one story from healthy to recovered.

The simulator runs in a process of its own and is met over HTTP, as a vLLM would be. Time runs `speed` times as fast
for both, through the one clock. What happens is told, and the advice followed, in story.py.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from agent.config import Config
from agent.config_file import parse_config
from agent.config_outputs import Alertmanager, Server
from agent.errors import UsageError
from probes.clock import ScaledClock
from probes.discovery.item import FileDiscovery

FILE = Path(__file__).with_name("demo.yaml")
ENGINE_PORTS = 8
FIRST_PORT, PORT_BLOCK, PORT_BLOCKS = 18_400, 16, 625  # below the ports that systems give to clients


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the demo plays: a folder for its files, its ports, and its clock."""

    folder: Path
    engine_port: int
    speed: float
    clock: ScaledClock

    @property
    def targets_file(self) -> Path:
        """Where the simulator names the replicas that take requests."""
        return self.folder / "targets.json"

    def config(self, listen: str, alertmanagers: Sequence[str] = ()) -> Config:
        """The demo's config, with the addresses of this stage. Raises UsageError for an address that is none."""
        config = parse_config(FILE.read_text(encoding="utf-8"), FILE.name)
        discovery = [
            source.model_copy(update={"path": self.folder / source.path})
            for source in config.discovery
            if isinstance(source, FileDiscovery)
        ]
        try:
            server = Server(listen=listen)
        except ValidationError:
            raise UsageError(f"--listen is {listen!r}", "Write HOST:PORT, such as 127.0.0.1:9470.") from None
        try:
            alertmanager = Alertmanager(urls=list(alertmanagers))
        except ValidationError:
            what = "--alertmanager is no address, or holds a password"
            raise UsageError(what, "Write an address such as http://127.0.0.1:9093.") from None
        return config.model_copy(update={"discovery": discovery, "server": server, "alertmanager": alertmanager})


@dataclass(frozen=True, slots=True)
class RunningSimulator:
    """The simulator's address, and a task that ends when its process does."""

    address: str
    death: asyncio.Task[int]


@contextlib.asynccontextmanager
async def simulator(stage: Stage) -> AsyncIterator[RunningSimulator]:
    """The simulator's process for as long as the context lasts. Raises UsageError if it does not come up."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "agent.cli", "simulate", "--serve", "--scenario", "demo", "--service", "chat",
        "--port", str(stage.engine_port), "--speed", repr(stage.speed), "--epoch", repr(stage.clock.epoch_seconds),
        "--file-sd", str(stage.targets_file),
        stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    death = asyncio.create_task(process.wait())
    try:
        await _until_serving(stage, process)
        yield RunningSimulator(f"http://127.0.0.1:{stage.engine_port}", death)
    finally:
        death.cancel()
        if process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 3.0)
        if process.returncode is None:
            process.kill()
            await process.wait()


def free_port(count: int = 1) -> int:
    """The first of `count` consecutive free ports on the loopback address. Raises UsageError when there are none.

    Where the search begins hangs on the process, so that two demos that start at once do not find the same.
    """
    begin = os.getpid() % PORT_BLOCKS
    for block in (*range(begin, PORT_BLOCKS), *range(begin)):
        first: int = FIRST_PORT + block * PORT_BLOCK
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise UsageError("no free ports on 127.0.0.1", "Stop other programs, or give --engine-port.")


async def _until_serving(stage: Stage, process: asyncio.subprocess.Process) -> None:
    """It names its replicas when their ports are open; on those ports alone anybody might answer."""
    for _ in range(200):
        if process.returncode is not None:
            raise UsageError(f"the simulator ended at once (exit code {process.returncode})", "Is its port free?")
        if stage.targets_file.exists():
            return
        await asyncio.sleep(0.1)
    raise UsageError("the simulator does not answer", "Is this machine very busy? Try again.")
