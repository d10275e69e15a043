"""`slo-agent demo`: one story, told in the terminal and shown on the page."""

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from agent.commands.common import add_log_level, log_to_stderr, stop_event
from agent.demo import ENGINE_PORTS, FILE, Stage, Story, free_port, simulator
from agent.errors import UsageError
from agent.service import Extras, serving
from probes.clock import ScaledClock
from probes.recording import RecordingWriter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--speed", type=float, default=20.0, help="seconds of the story per real second; default: 20")
    parser.add_argument("--listen", default="127.0.0.1:9470", metavar="HOST:PORT", help="default: %(default)s")
    parser.add_argument("--engine-port", type=int, help="first port of the simulated engines; default: free ones")
    parser.add_argument(
        "--alertmanager", action="append", default=[], metavar="URL", help="page a real Alertmanager, too; repeatable"
    )
    parser.add_argument("--record", type=Path, metavar="F.jsonl.gz", help="keep a recording of what the agent reads")
    parser.add_argument("--exit", action="store_true", help="end when the story is over, instead of staying up")
    add_log_level(parser)
    parser.set_defaults(log_level="error")


def run(options: argparse.Namespace) -> int:
    """Play until Ctrl-C, or with --exit until the story is over."""
    if not 1 <= options.speed <= 100:
        raise UsageError(f"--speed is {options.speed:g}", "Give a number from 1 to 100.")
    log_to_stderr(options.log_level)
    with tempfile.TemporaryDirectory(prefix="slo-agent-demo-") as folder, _recorder(options.record) as recorder:
        asyncio.run(_play(options, Path(folder), recorder))
    return 0


async def _play(options: argparse.Namespace, folder: Path, recorder: RecordingWriter | None) -> None:
    clock = ScaledClock(options.speed, time.time())
    stage = Stage(folder, options.engine_port or free_port(ENGINE_PORTS), options.speed, clock)
    config = stage.config(options.listen, options.alertmanager)
    stop = stop_event()
    _say(f"slo-agent demo: two simulated vLLM replicas, one story, time runs {options.speed:g}x.")
    async with simulator(stage) as engines:
        address = engines.address
        story = Story(address, clock, _say, clock.now_seconds())
        note = f"Demo: simulated engines, time runs {options.speed:g}x."
        extras = Extras(recorder=recorder, note=note, on_effects=(story.hear,))
        async with serving(config, clock, extras):
            _say(f"  page        http://{options.listen}/")
            _say(f"  metrics     http://{options.listen}/metrics")
            _say(f"  an engine   {address}/metrics    try: slo-agent probe {address}")
            _say(f"  config      {FILE}")
            _say("The story: healthy, then after 8 minutes too much load, a burning SLO, a page, advice, recovery.")
            _say("In brackets the story's minutes. Ctrl-C stops everything.\n")
            over = asyncio.create_task(story.ended.wait())
            stopped = asyncio.create_task(stop.wait())
            await asyncio.wait({over, stopped, engines.death}, return_when=asyncio.FIRST_COMPLETED)
            if engines.death.done():
                raise UsageError("the simulator ended in the middle of the story", "Start the demo again.")
            if not stop.is_set():
                _say("\nThe story is over: every alert is resolved." + ("" if options.exit else " The agent goes on."))
                if options.exit:  # a recording shall hold a reading after the last alert's end, for its replay
                    await clock.sleep(config.scrape.interval_seconds + config.tick_seconds)
                else:
                    await stop.wait()
            over.cancel()
            stopped.cancel()
    _say("stopped.")


@contextlib.contextmanager
def _recorder(path: Path | None) -> Iterator[RecordingWriter | None]:
    if path is None:
        yield None
        return
    if path.exists():
        raise UsageError(f"{path} is there already", "Name another file: a recording is never overwritten.")
    try:
        writer = RecordingWriter(path)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", "Name a file in a folder that is there."
        ) from None
    try:
        yield writer
    finally:
        writer.abandon()


def _say(line: str) -> None:
    print(line, flush=True)
