"""`slo-agent simulate`: the simulator as a server, or one run in virtual time."""

import argparse
import asyncio
import contextlib
import sys
import time
from pathlib import Path

from agent.errors import UsageError
from agent.simulator.arrivals import Arrivals, Steps
from agent.simulator.engine import EngineConfig
from agent.simulator.fleet import Direct, Fleet
from agent.simulator.plant import Plant
from agent.simulator.router import LeastLoad
from agent.simulator.scenarios import CHAT, SCENARIOS
from agent.simulator.seeds import stream
from agent.simulator.server import SimulatorServer
from agent.simulator.workload import OpenLoop
from probes.clock import ScaledClock, SystemClock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of both forms; interfaces.md fixes those of the batch form."""
    parser.add_argument("--serve", action="store_true", help="serve over HTTP instead of running in virtual time")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="first port; replica i listens on port + i")
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds per real second")
    parser.add_argument("--epoch", type=float, help="unix time at which the scaled clock and the real one agree")
    parser.add_argument("--file-sd", type=Path, help="keep a Prometheus file_sd file of the ready replicas here")
    parser.add_argument("--service", default="chat", help="the `service` label in the file_sd file")
    parser.add_argument("--model", default="llama8b", help="the served model name")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="a named story with its own load")
    parser.add_argument("--replicas", type=int, help="engines (default: the story's, or 1)")
    parser.add_argument("--rate", type=float, help="requests per second (open loop)")
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace) -> int:
    """Do what was asked; returns the exit code."""
    if args.speed <= 0:
        raise UsageError(f"--speed is {args.speed}", "Give a number above 0.")
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_serve(args))
    return 0


async def _serve(args: argparse.Namespace) -> None:
    epoch_seconds = time.time() if args.epoch is None else args.epoch
    clock = SystemClock() if args.speed == 1.0 else ScaledClock(args.speed, epoch_seconds)
    start_seconds = clock.now_seconds() if args.epoch is None else epoch_seconds
    fleet = _fleet(args, start_seconds)
    server = SimulatorServer(fleet, clock, args.host, args.port, args.service, args.file_sd)
    print(f"simulating {args.model} at http://{args.host}:{args.port}", file=sys.stderr)  # noqa: T201 - a command prints
    await server.run()


def _fleet(args: argparse.Namespace, start_seconds: float) -> Fleet:
    if args.scenario:
        return SCENARIOS[args.scenario].fleet(args.seed, start_seconds, model=args.model, replicas=args.replicas)
    workload = None
    if args.rate:
        arrivals = Arrivals(Steps(((0.0, args.rate),)), stream(args.seed, "arrivals"), start_seconds)
        workload = OpenLoop(arrivals, lambda _: CHAT, stream(args.seed, "prompts"))
    plant = Plant(EngineConfig(model=args.model))
    return Fleet(
        plant.build,
        Direct(LeastLoad()),
        workload,
        start_seconds,
        counts={"aggregated": args.replicas or 1},
        cold_start_seconds=110.0,
    )


def main() -> int:
    """Run this command alone."""
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    add_arguments(parser)
    return run(parser.parse_args())


if __name__ == "__main__":
    raise SystemExit(main())
