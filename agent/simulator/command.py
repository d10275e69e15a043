"""`slo-agent simulate`: the simulator as a server, or one run in virtual time."""

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from math import inf
from pathlib import Path

from agent.commands.common import finite
from agent.errors import UsageError
from agent.simulator.arrivals import Arrivals, Steps
from agent.simulator.batch import Run
from agent.simulator.lengths import Fixed, Uniform
from agent.simulator.plant import Plant
from agent.simulator.plants import PLANTS
from agent.simulator.recorder import Recorder
from agent.simulator.scenario import Stage
from agent.simulator.scenarios import CHAT, SCENARIOS
from agent.simulator.seeds import stream
from agent.simulator.server import SimulatorServer
from agent.simulator.topology import Topology, parse_topology
from agent.simulator.workload import ClosedLoop, OpenLoop, Prompts, Workload
from probes.clock import ScaledClock, SystemClock

BATCH_EPOCH_SECONDS = (
    1_800_000_000.0  # a run in virtual time begins at the same moment every time: same seed, same bytes
)
ENGINE_OPTIONS = ("max_num_batched_tokens", "max_num_seqs", "block_size")
LOAD = ("max_concurrency", "request_rate")  # what the run was asked for
UNITS = {  # of the names that tell none
    "duration": "s",
    "request_throughput": "requests/s",
    "output_throughput": "tokens/s",
    "total_token_throughput": "tokens/s",
}
LONGEST_RUN_SECONDS = 30 * 86_400.0  # virtual; a run whose requests cannot end stops here

EXAMPLES = """examples:
  slo-agent simulate --serve --port 8000 --rate 8 --input-tokens 1000 --output-tokens 200
  slo-agent simulate --concurrency 32 --input-tokens 1000 --output-tokens 200 --requests 500 --json
  slo-agent simulate --scenario step_x3 --out rec.jsonl.gz"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of both forms; interfaces.md fixes those of the batch form."""
    load = parser.add_argument_group(
        "load",
        "Either --scenario, or --concurrency or --rate with --input-tokens and --output-tokens. With --serve none is "
        "needed: then it waits for requests from outside.",
    )
    load.add_argument("--scenario", choices=sorted(SCENARIOS), help="a named story with its own load")
    load.add_argument("--concurrency", type=int, help="closed loop: so many clients")
    load.add_argument("--rate", type=finite, help="open loop: so many requests per second")
    load.add_argument("--input-tokens", type=int, help="prompt length")
    load.add_argument("--output-tokens", type=int, help="answer length")
    load.add_argument(
        "--range-ratio", type=finite, default=0.0, metavar="X", help="lengths uniform in [n(1-X), n(1+X)]; default: 0"
    )
    load.add_argument("--seed", type=int, default=0, help="same seed, same run; default: %(default)s")
    fleet = parser.add_argument_group("fleet", "--replicas and --topology exclude each other.")
    fleet.add_argument("--replicas", type=int, help="engines; default: the story's, or 1")
    fleet.add_argument("--topology", help="pd:P:D for P prefill and D decode engines; default: none are split")
    fleet.add_argument("--plant", choices=sorted(PLANTS), help="model, GPU, step-time law; default: llama8b_h200")
    fleet.add_argument("--model", help="the served model name; default: the plant's")
    fleet.add_argument("--max-num-batched-tokens", type=int, help="tokens a step; default: the plant's")
    fleet.add_argument("--max-num-seqs", type=int, help="sequences that run at once; default: the plant's")
    fleet.add_argument("--block-size", type=int, help="tokens a KV block; default: the plant's")
    fleet.add_argument(
        "--cold-start", type=finite, help="seconds until a new replica answers; default: the story's, 110"
    )
    serve = parser.add_argument_group("serving", "Only with --serve.")
    serve.add_argument("--serve", action="store_true", help="serve over HTTP instead of running in virtual time")
    serve.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    serve.add_argument(
        "--port", type=int, default=8000, help="first port, replica i has port + i; default: %(default)s"
    )
    serve.add_argument("--speed", type=finite, default=1.0, help="simulated seconds per real second; default: 1")
    serve.add_argument("--file-sd", type=Path, help="keep a Prometheus file_sd file of the ready replicas here")
    serve.add_argument("--service", default="chat", help="the `service` label in that file; default: %(default)s")
    serve.add_argument("--otlp-traces-endpoint", help="send spans there over OTLP/HTTP (http://host:4318/v1/traces)")
    run_form = parser.add_argument_group(
        "one run in virtual time", "Only without --serve. --requests or --duration is needed where there is no story."
    )
    run_form.add_argument("--requests", type=int, help="so many requests in all")
    run_form.add_argument("--duration", type=finite, help="stop after so many simulated seconds; default: the story's")
    run_form.add_argument("--out", type=Path, help="write what an agent would have read, each second")
    run_form.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--epoch", type=finite, help="unix time at which the run begins; default: now, or a fixed one")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Do what was asked; returns the exit code.

    Raises UsageError with every mistake of the command line in one sentence each.
    """
    mistakes = list(_mistakes(args))
    if mistakes:
        raise UsageError("; ".join(mistakes), "See slo-agent simulate --help.")
    if args.serve:
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            asyncio.run(_serve(args))
        return 0
    return _batch(args)


def _mistakes(args: argparse.Namespace) -> Iterable[str]:
    if args.speed <= 0:
        yield f"--speed is {args.speed}, expected a number above 0"
    if args.replicas is not None and args.topology:
        yield "--replicas and --topology exclude each other"
    if args.concurrency is not None and args.rate is not None:
        yield "--concurrency and --rate exclude each other"
    if args.scenario and any((args.concurrency, args.rate, args.topology, args.input_tokens, args.output_tokens)):
        yield "--scenario brings its own load and topology: leave out --concurrency, --rate, --topology, lengths"
    for name in (
        *ENGINE_OPTIONS,
        "concurrency",
        "rate",
        "requests",
        "input_tokens",
        "output_tokens",
        "replicas",
        "duration",
    ):
        value = getattr(args, name)
        if value is not None and value <= 0:
            yield f"--{name.replace('_', '-')} is {value}, expected a number above 0"
    if not 0 <= args.range_ratio < 1:
        yield f"--range-ratio is {args.range_ratio}, expected 0 <= x < 1"
    if not args.serve and not args.scenario:
        yield from _missing(args)


def _missing(args: argparse.Namespace) -> Iterable[str]:
    """What a run without a story cannot do without."""
    if args.concurrency is None and args.rate is None:
        yield "one of --concurrency, --rate, --scenario, --serve is needed"
    for name in ("input_tokens", "output_tokens"):
        if getattr(args, name) is None:
            yield f"--{name.replace('_', '-')} is needed"
    if args.requests is None and args.duration is None:
        yield "--requests or --duration is needed"


def _batch(args: argparse.Namespace) -> int:
    start_seconds = BATCH_EPOCH_SECONDS if args.epoch is None else args.epoch
    a_run = Run(start_seconds)
    stage = _stage(args, start_seconds, a_run)
    duration = args.duration
    if duration is None:
        duration = LONGEST_RUN_SECONDS if args.requests else SCENARIOS[args.scenario].duration_seconds
    with Recorder(args.out, stage.tiers) if args.out else nullcontext() as recorder:
        a_run.drive(stage, requests=args.requests, duration_seconds=duration, recorder=recorder)
    report = a_run.report(args.seed, concurrency=args.concurrency, rate=args.rate)
    if args.json:
        print(json.dumps(report))  # noqa: T201 - a command prints
    else:
        for line in _lines(report, has_story=args.scenario is not None):
            print(line)  # noqa: T201 - a command prints
        if args.out:
            print(f"wrote {args.out}: {args.out.stat().st_size:,} bytes")  # noqa: T201 - a command prints
    return 0


def _lines(report: Mapping[str, float | int | str | None], *, has_story: bool) -> Iterator[str]:
    """One figure a line, with its unit where the name has none; a story has its own load, and no one rate."""
    width = max(map(len, report))
    for name, value in report.items():
        if name in LOAD and (has_story or value is None):
            continue
        text = "unknown" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
        yield f"{name:{width}}  {text:>12} {UNITS.get(name, '')}".rstrip()


async def _serve(args: argparse.Namespace) -> None:
    epoch_seconds = time.time() if args.epoch is None else args.epoch
    clock = SystemClock() if args.speed == 1.0 else ScaledClock(args.speed, epoch_seconds)
    start_seconds = clock.now_seconds() if args.epoch is None else epoch_seconds
    stage = _stage(args, start_seconds, None)
    server = SimulatorServer(
        stage.fleet, clock, args.host, args.port, args.service, args.file_sd, stage.tiers, args.otlp_traces_endpoint
    )
    print(f"simulating at http://{args.host}:{args.port}", file=sys.stderr)  # noqa: T201 - a command prints
    await server.run()


def _stage(args: argparse.Namespace, start_seconds: float, a_run: Run | None) -> Stage:
    on_end, gaps = (a_run.ended.append, a_run.gaps) if a_run else (None, None)
    if args.scenario:
        scenario = SCENARIOS[args.scenario]
        scenario = replace(scenario, plant=_plant(args, PLANTS[args.plant] if args.plant else scenario.plant))
        stage = scenario.stage(args.seed, start_seconds, replicas=args.replicas, on_end=on_end, gaps=gaps)
        if args.cold_start is not None:
            stage.fleet.cold_start_seconds = args.cold_start
        return stage
    topology = parse_topology(args.topology) if args.topology else Topology(aggregated=args.replicas or 1)
    fleet = topology.fleet(
        _plant(args, PLANTS[args.plant or "llama8b_h200"]),
        _workload(args, start_seconds),
        start_seconds,
        cold_start_seconds=110.0 if args.cold_start is None else args.cold_start,
        on_end=on_end,
        gaps=gaps,
    )
    return Stage(fleet)


def _plant(args: argparse.Namespace, plant: Plant) -> Plant:
    """The plant with what the command line changes; the KV cache keeps its size in tokens."""
    config = plant.config
    block_tokens = args.block_size or config.block_tokens
    changed = replace(
        config,
        model=args.model or config.model,
        max_num_batched_tokens=args.max_num_batched_tokens or config.max_num_batched_tokens,
        max_num_seqs=args.max_num_seqs or config.max_num_seqs,
        block_tokens=block_tokens,
        num_gpu_blocks=config.num_gpu_blocks * config.block_tokens // block_tokens,
    )
    return replace(plant, config=changed)


def _workload(args: argparse.Namespace, start_seconds: float) -> Workload | None:
    draws = stream(args.seed, "prompts")
    prompts = CHAT
    if args.input_tokens and args.output_tokens:
        prompts = Prompts(_lengths(args.input_tokens, args.range_ratio), _lengths(args.output_tokens, args.range_ratio))
    if args.rate:
        arrivals = Arrivals(Steps(((0.0, args.rate),)), stream(args.seed, "arrivals"), start_seconds)
        return OpenLoop(arrivals, lambda _: prompts, draws, limit=args.requests)
    if args.concurrency:
        requests = args.requests if args.requests is not None else inf
        return ClosedLoop(args.concurrency, requests, lambda index: prompts.draw(f"r{index}", draws), start_seconds)
    return None


def _lengths(tokens: int, range_ratio: float) -> Fixed | Uniform:
    return Uniform(tokens, range_ratio) if range_ratio else Fixed(tokens)


def main() -> int:
    """Run this command alone."""
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    add_arguments(parser)
    try:
        return run(parser.parse_args())
    except UsageError as error:
        print(error, file=sys.stderr)  # noqa: T201 - a command prints
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
