"""`slo-agent record`: readings into a file, for report and replay."""

import argparse
import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
from prometheus_client import CollectorRegistry

from agent.commands.common import (
    add_config,
    add_examples,
    add_log_level,
    count_of,
    duration_seconds,
    log_to_stderr,
    stop_event,
)
from agent.config import Config
from agent.config_file import load_config
from agent.errors import UsageError
from agent.outputs.self_metrics import SelfMetrics
from agent.receiving import receive_spans
from agent.runtime import Agent, Listeners
from probes.clock import SystemClock
from probes.recording import RecordingWriter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_config(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="F.jsonl.gz", help="where to write")
    parser.add_argument("--for", dest="seconds", type=duration_seconds, metavar="10m", help="default: until stopped")
    add_log_level(parser)
    add_examples(parser, "slo-agent record -c agent.yaml --out rec.jsonl.gz --for 10m")


def run(options: argparse.Namespace) -> int:
    """Record until stopped or the time is over."""
    # nothing is remembered, either: the state file is that of the agent that runs
    config = load_config(options.config).model_copy(update={"state": None})
    if options.out.exists():
        raise UsageError(f"{options.out} is there already", "Name another file: a recording is never overwritten.")
    log_to_stderr(options.log_level)
    for name in ("agent.runtime", "agent.alert_lines"):
        logging.getLogger(name).addFilter(_is_of_the_recording)
    trouble = asyncio.run(_record(config, options.out, options.seconds))
    if trouble:
        raise UsageError(f"{options.out}: the recording ended early: {trouble}", "What was written until then is good.")
    print(f"wrote {options.out}: {options.out.stat().st_size:,} bytes")
    return 0


async def _record(config: Config, out: Path, seconds: float | None) -> str:
    """Why it ended early; "" when it did not."""
    stop = stop_event()
    try:
        writer = RecordingWriter(out)
    except OSError as error:
        raise UsageError(
            f"{out} cannot be written: {error.strerror}", "Name a file in a folder that is there."
        ) from None
    agent = Agent(config, SystemClock(), SelfMetrics(CollectorRegistry()), Listeners(recorder=writer))
    try:
        async with agent.running(), _spans_received(config, agent):
            how_long = f"for {seconds:g} s" if seconds else "until Ctrl-C"
            print(f"recording {count_of(len(agent.view.plan.targets), 'target')} into {out} {how_long}", flush=True)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), seconds)
    finally:
        writer.abandon()
    for status in agent.view.snapshot().targets:
        if status.last_seen_seconds is None:
            print(f"warning: {status.name} never answered: {status.detail or 'no look has ended yet'}", flush=True)
    return agent.tape.trouble


@contextlib.asynccontextmanager
async def _spans_received(config: Config, agent: Agent) -> AsyncIterator[None]:
    """Spans go into the recording, unless the agent that runs beside it has their address: that is told."""
    async with aiohttp.ClientSession(trust_env=False) as session:
        try:
            receiver = await receive_spans(config.spans, agent, session)
        except UsageError as error:
            print(f"warning: no spans in this recording: {error}", flush=True)
            yield
            return
        try:
            yield
        finally:
            await receiver.stop()


def _is_of_the_recording(record: logging.LogRecord) -> bool:
    """Nobody is told of alerts and advice here: a log that says "alert firing" would be mistaken for a page."""
    return not str(record.msg).startswith(("alert ", "recommendation "))
