"""`slo-agent run`: the agent."""

import argparse
import asyncio
import signal

from agent.commands.common import add_config, add_log_level, log_to_stderr, stop_event
from agent.config import Config
from agent.config_file import load_config
from agent.service import Extras, serving
from probes.clock import SystemClock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_config(parser)
    add_log_level(parser)
    parser.epilog = "SIGHUP or POST /-/reload reads the config again; SIGINT and SIGTERM stop the agent."


def run(options: argparse.Namespace) -> int:
    """Run until stopped."""
    config = load_config(options.config)
    log_to_stderr(options.log_level)
    asyncio.run(_serve(config, options))
    return 0


async def _serve(config: Config, options: argparse.Namespace) -> None:
    stop = stop_event()
    reloads: set[asyncio.Task[list[str]]] = set()
    async with serving(config, SystemClock(), Extras(path=options.config)) as agent:

        def reload() -> None:
            task = asyncio.create_task(agent.reload())
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
        print(f"slo-agent: the page is at http://{config.server.listen}/", flush=True)
        await stop.wait()
