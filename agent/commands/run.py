"""`slo-agent run`: the agent."""

import argparse
import asyncio
import signal

from agent.commands.common import add_config, add_examples, add_log_level, log_to_stderr, stop_event
from agent.config import Config
from agent.config_file import load_config
from agent.runtime import Agent
from agent.service import Extras, serving
from probes.clock import SystemClock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_config(parser)
    add_log_level(parser)
    parser.epilog = "SIGHUP or POST /-/reload reads the config again; SIGINT and SIGTERM stop the agent."
    add_examples(
        parser,
        "slo-agent run -c agent.yaml",
        "slo-agent run -c agent.yaml --log-level warning",
    )


def run(options: argparse.Namespace) -> int:
    """Run until stopped."""
    config = load_config(options.config)
    log_to_stderr(options.log_level)
    asyncio.run(_serve(config, options))
    return 0


async def _serve(config: Config, options: argparse.Namespace) -> None:
    stop = stop_event()
    hangup = asyncio.Event()  # heard from the first moment on: unheard, it would end the process
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hangup.set)
    async with serving(config, SystemClock(), Extras(path=options.config)) as agent:
        reloading = asyncio.create_task(_reload_at(hangup, agent))
        print(f"slo-agent: the page is at http://{config.server.listen}/", flush=True)
        await stop.wait()
        reloading.cancel()


async def _reload_at(hangup: asyncio.Event, agent: Agent) -> None:
    while True:
        await hangup.wait()
        hangup.clear()
        await agent.reload()
