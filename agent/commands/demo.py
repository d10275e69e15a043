"""`slo-agent demo`: one story, told in the terminal and shown on the page."""

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from agent.commands.common import add_examples, add_log_level, log_to_stderr, stop_event
from agent.demo import ENGINE_PORTS, FILE, Stage, free_port, simulator
from agent.errors import AddressTakenError, UsageError
from agent.pace import FASTEST, SLOWEST, USUAL, default_speed, machine_speed, outruns
from agent.service import Extras, serving
from agent.story import Story
from probes.clock import ScaledClock
from probes.recording import RecordingWriter

STORY_MINUTES = 27.0  # until the last alert has ended and the advice is judged


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "--speed",
        type=float,
        metavar="X",
        help=f"seconds of the story per real second, {SLOWEST:g} to {FASTEST:g}; "
        f"default: {USUAL:g}, less on a machine that is slow or busy",
    )
    parser.add_argument(
        "--listen", default="127.0.0.1:9470", metavar="HOST:PORT", help="the page's address; default: %(default)s"
    )
    parser.add_argument("--engine-port", type=int, help="first port of the simulated engines; default: free ones")
    parser.add_argument(
        "--alertmanager", action="append", default=[], metavar="URL", help="page a real Alertmanager, too; repeatable"
    )
    parser.add_argument("--record", type=Path, metavar="F.jsonl.gz", help="keep a recording of what the agent reads")
    parser.add_argument("--exit", action="store_true", help="end when the story is over, instead of staying up")
    add_log_level(parser)
    parser.set_defaults(log_level="error")
    add_examples(
        parser,
        "slo-agent demo --listen 127.0.0.1:9471 --speed 5",
        "slo-agent demo --alertmanager http://127.0.0.1:9093",
        "slo-agent demo --exit --record demo.jsonl.gz && slo-agent report demo.jsonl.gz",
    )


def run(options: argparse.Namespace) -> int:
    """Play until Ctrl-C, or with --exit until the story is over."""
    if options.speed is not None and not SLOWEST <= options.speed <= FASTEST:
        raise UsageError(f"--speed is {options.speed:g}", f"Give a number from {SLOWEST:g} to {FASTEST:g}.")
    log_to_stderr(options.log_level)
    with tempfile.TemporaryDirectory(prefix="slo-agent-demo-") as folder, _recorder(options.record) as recorder:
        asyncio.run(_play(options, Path(folder), recorder))
    return 0


async def _play(options: argparse.Namespace, folder: Path, recorder: RecordingWriter | None) -> None:
    speed = _speed(options.speed)
    engine_port = options.engine_port or free_port(ENGINE_PORTS)
    stage = Stage(folder, engine_port, speed, ScaledClock(speed, time.time()))
    config = stage.config(options.listen, options.alertmanager)
    stop = stop_event()
    async with simulator(stage) as engines, contextlib.AsyncExitStack() as stack:
        story = Story(engines.address, stage.clock, _say, config.tick_seconds)
        began = time.strftime("%H:%M:%S", time.localtime(stage.clock.epoch_seconds))
        note = f"Demo: simulated engines, time runs {speed:g}x. The story's minute 0 was {began} on the demo's machine."
        extras = Extras(recorder=recorder, note=note, on_effects=(story.hear,))
        try:
            await stack.enter_async_context(serving(config, stage.clock, extras))
        except AddressTakenError as error:
            raise UsageError(error.what, "Is another agent running? Give --listen 127.0.0.1:9471.") from None
        _welcome(options.listen, engines.address, speed)
        watching = asyncio.create_task(story.watch())
        stack.callback(watching.cancel)
        over = asyncio.create_task(story.ended.wait())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({over, stopped, engines.death}, return_when=asyncio.FIRST_COMPLETED)
        if engines.death.done():
            raise UsageError("the simulator ended in the middle of the story", "Start the demo again.")
        if not stop.is_set():
            _say("\nThe story is over: every alert is resolved." + ("" if options.exit else " The agent goes on."))
            if options.exit:
                # a recording shall hold a reading after the last alert's end, for its replay
                await stage.clock.sleep(config.scrape.interval_seconds + config.tick_seconds)
            else:
                await stop.wait()
        over.cancel()
        stopped.cancel()
    _say("stopped.")


def _speed(asked: float | None) -> float:
    """The speed asked for, or the one that suits this machine; says so where the two, or the usual one, differ."""
    machine = machine_speed()
    suits = default_speed(machine)
    measured = f"This machine is slow or busy: it simulates {machine:.0f} s of the overload in 1 s."
    if asked is None and suits < USUAL:
        _say(f"{measured} The story runs {suits:g}x instead of {USUAL:g}x (--speed says otherwise).")
    if asked is not None and outruns(asked, machine):
        _say(f"WARNING: {measured} {asked:g}x may outrun it: figures may be late; try --speed {suits:g}.")
    return asked or suits


def _welcome(listen: str, engine: str, speed: float) -> None:
    _say(f"slo-agent demo: two simulated vLLM replicas, one story, time runs {speed:g}x.")
    _say(f"  page        http://{listen}/")
    _say(f"  metrics     http://{listen}/metrics")
    _say(f"  an engine   {engine}/metrics    try: slo-agent probe {engine}")
    _say(f"  config      {FILE}")
    _say("The story: healthy; after 8 minutes too much load, a burning SLO, advice, a page, recovery.")
    seconds = 60 * STORY_MINUTES / speed
    length = f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
    _say(f"It takes about {length} here, {STORY_MINUTES:.0f} minutes of its own.")
    _say("In brackets the story's minute, and the time that the page shows for it. Ctrl-C stops everything.\n")


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
