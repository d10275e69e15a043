"""Where a command that looks at an agent gets its answer: a running one, or a recording played to its end."""

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from agent.commands.common import add_config
from agent.config_file import load_config
from agent.errors import UsageError
from agent.outputs.jsonable import snapshot_json
from agent.replay import Replay

WAIT_SECONDS = 10.0
Item = Mapping[str, Any]


def add_sources(parser: argparse.ArgumentParser) -> None:
    """The options --agent, --recording and -c."""
    parser.add_argument(
        "--agent", metavar="URL", help="a running agent, such as http://127.0.0.1:9470: as it stands now"
    )
    parser.add_argument(
        "--recording", type=Path, metavar="REC", help="a recording, with -c FILE: as it stood at its end"
    )
    add_config(parser, required=False)


def ask(options: argparse.Namespace, part: str, who: str) -> tuple[float | None, Sequence[Item]]:
    """(the time of the answer, the items of that part of the API), such as "slos" or "recommendations".

    Raises UsageError where neither source is named or both are, and where nobody answers.
    """
    if (options.agent is None) == (options.recording is None) or (options.recording and not options.config):
        raise UsageError(f"{who} needs to know where to look", "Write --agent URL, or --recording REC -c FILE.")
    if options.agent:
        return _of_agent(options.agent, part)
    replay = Replay(options.recording, load_config(options.config))
    for _ in replay.effects():
        pass
    if replay.last is None:
        return None, []
    found: Any = snapshot_json(replay.last.snapshot)[part]
    return replay.last.snapshot.at_seconds, found


def _of_agent(url: str, part: str) -> tuple[float | None, Sequence[Item]]:
    address = f"{url.rstrip('/')}/api/v1/{part}"
    try:
        answer = json.loads(asyncio.run(_fetch(address)))
        return answer["at"], answer[part]
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{address}: {str(error) or type(error).__name__}", "Is this the address of a running agent?"
        ) from None


async def _fetch(address: str) -> str:
    timeout = aiohttp.ClientTimeout(total=WAIT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session, session.get(address) as answer:
        answer.raise_for_status()
        return await answer.text()
