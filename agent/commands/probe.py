"""`slo-agent probe URL`: one canary, its figures, and an exit code."""

import argparse
import asyncio
import os
import time

from agent.commands.common import add_json, print_json
from agent.errors import UsageError
from probes.canary.chat import ChatCanary
from probes.canary.prober import base_url, run_probe
from probes.canary.report import probe_json
from probes.canary.task import ProbeTask
from probes.clock import SystemClock

DEFAULTS = ChatCanary()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("url", metavar="URL", help="base address, such as http://vllm:8000")
    parser.add_argument("--model", help="served model name; default: the first of /v1/models")
    parser.add_argument("--prompt", default=DEFAULTS.prompt, help="what is asked; default: %(default)r")
    parser.add_argument("--max-tokens", type=int, default=DEFAULTS.max_tokens, help="default: %(default)s")
    parser.add_argument(
        "--token-env",
        default="SLO_AGENT_TOKEN",
        metavar="NAME",
        help="variable with the bearer token; default: %(default)s",
    )
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Exit code 0 when the canary was answered, 1 when not, 2 for an address that is none."""
    if base_url(options.url) is None:
        raise UsageError(f"{options.url!r} is no http address", "Write one such as http://vllm:8000.")
    if options.max_tokens < 2:
        raise UsageError(f"--max-tokens is {options.max_tokens}", "At least 2 are needed: one token has no TPOT.")
    task = ProbeTask(
        target=options.url,
        url=options.url,
        model=options.model,
        token=os.environ.get(options.token_env) or None,
        prompt=options.prompt,
        max_tokens=options.max_tokens,
        planned_at_seconds=time.time(),
    )
    result = asyncio.run(run_probe(task, SystemClock()))
    if options.json:
        print_json(probe_json(result))
        return 0 if result.is_ok else 1
    print(f"outcome        {result.outcome}{'  (' + result.detail + ')' if result.detail else ''}")
    print(f"model          {result.model or 'unknown'}")
    for name, value in (
        ("TTFT", result.ttft_seconds),
        ("TPOT", result.tpot_seconds),
        ("ITL max", max(result.itl_gaps_seconds, default=None)),
        ("E2E", result.e2e_seconds),
        ("timing error", result.timing_error_seconds),
    ):
        print(f"{name:<14} {'unknown' if value is None else f'{value * 1000:.1f} ms'}")
    for name, count in (
        ("prompt", result.prompt_tokens),
        ("cached", result.cached_tokens),
        ("output", result.output_tokens),
    ):
        print(f"{name + ' tokens':<14} {'unknown' if count is None else count}")
    phases = "  ".join(f"{k} {'-' if v is None else f'{v * 1000:.1f} ms'}" for k, v in result.phases.items())
    print(f"phases         {phases or 'none'}")
    if result.flags:
        print(f"noticed        {', '.join(result.flags)}")
    return 0 if result.is_ok else 1
