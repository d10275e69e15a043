"""Where a command that looks at an agent gets its answer: a running one, or what was seen, played to its end."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp

from agent.commands.common import add_config, past
from agent.config import Config
from agent.config_file import load_config
from agent.errors import UsageError
from agent.outputs.jsonable import snapshot_json
from agent.prometheus_source import open_history
from agent.replay import Course, Replay, replay_history

WAIT_SECONDS = 10.0
HISTORY_SECONDS = 7_200.0
TELL_SECONDS = 1.0
Item = Mapping[str, Any]


def add_sources(parser: argparse.ArgumentParser) -> None:
    """The options --agent, --recording, --prometheus and -c."""
    parser.add_argument(
        "--agent", metavar="URL", help="a running agent, such as http://127.0.0.1:9470: as it stands now"
    )
    parser.add_argument(
        "--recording", type=Path, metavar="REC", help="a recording, with -c FILE: as it stood at its end"
    )
    parser.add_argument("--prometheus", metavar="URL", help="what this Prometheus scraped, with -c FILE: as of now")
    parser.add_argument(
        "--from", dest="start", type=past, metavar="T", help="of the Prometheus: how far back; default: 2h"
    )
    add_config(parser, required=False)


def ask(options: argparse.Namespace, part: str, who: str) -> tuple[float | None, Mapping[str, Sequence[Item]]]:
    """(the time of the answer, the lists of that part of the API), such as "slos" or "recommendations".

    Raises UsageError where not exactly one source is named, and where nobody answers.
    """
    named = [source for source in (options.agent, options.recording, options.prometheus) if source is not None]
    if len(named) != 1 or (options.agent is None and not options.config):
        raise UsageError(
            f"{who} needs to know where to look",
            "Write --agent URL, or --recording REC -c FILE, or --prometheus URL -c FILE.",
        )
    if options.agent:
        return _of_agent(options.agent, part)
    config = load_config(options.config)
    if options.recording:
        progress = _Progress()
        replay = Replay(options.recording, config, progress.tell)
        for _ in replay.effects():
            pass
        progress.end()
        course = replay.course
        warn_of_unseen(options.recording, course)
    else:
        course = asyncio.run(_of_prometheus(options, config))
    if course.last is None:
        return None, {part: []}
    found: Any = snapshot_json(course.last.snapshot)
    return course.last.snapshot.at_seconds, found


@dataclass(slots=True)
class _Progress:
    """On a terminal a line tells how far a recording was played: an hour of many engines takes half a minute."""

    told_at: float = field(default_factory=time.monotonic)
    has_told: bool = False

    def tell(self, at_seconds: float) -> None:
        if sys.stderr.isatty() and time.monotonic() - self.told_at >= TELL_SECONDS:
            self.told_at, self.has_told = time.monotonic(), True
            at = datetime.fromtimestamp(at_seconds, UTC)
            print(f"\rplayed up to {at:%F %T} UTC", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.has_told:
            print(file=sys.stderr)


def warn_of_unseen(recording: Path, course: Course) -> None:
    """Targets that the config names and the recording does not know are replicas that never answer: said on stderr."""
    if names := course.unseen():
        print(
            f"warning: {recording} tells nothing of {', '.join(names)}, which the config names: counted as engines "
            f"that never answer. Write the names of the recording, or leave targets out: it tells of its own.",
            file=sys.stderr,
        )


async def _of_prometheus(options: argparse.Namespace, config: Config) -> Course:
    end = time.time()
    start = end - HISTORY_SECONDS if options.start is None else options.start
    course = Course(config)
    async with open_history(config, options.prometheus, "") as history:
        async for _ in replay_history(history, course, start, end, None):
            pass
    if course.last is None:
        raise UsageError(f"{options.prometheus}: no look at a vLLM in this stretch", "Is it within its retention?")
    return course


def _of_agent(url: str, part: str) -> tuple[float | None, Mapping[str, Sequence[Item]]]:
    address = f"{url.rstrip('/')}/api/v1/{part}"
    try:
        answer = json.loads(asyncio.run(_fetch(address)))
        return answer["at"], {part: answer[part], **answer}
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
        said = str(error).replace(" ssl:default", "") or type(error).__name__  # aiohttp says it of plain http, too
        raise UsageError(f"{address}: {said}", "Is this the address of a running agent?") from None


async def _fetch(address: str) -> str:
    timeout = aiohttp.ClientTimeout(total=WAIT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session, session.get(address) as answer:
        answer.raise_for_status()
        return await answer.text()
