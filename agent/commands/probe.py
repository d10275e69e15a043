"""`slo-agent probe URL`: one canary, its figures, and an exit code."""

import argparse
import asyncio
import os
import time
from collections.abc import Iterator

from agent.commands.common import add_examples, add_json, print_json
from agent.commands.probe_words import flag_words
from agent.errors import UsageError
from probes.canary.chat import ChatCanary
from probes.canary.prober import base_url, run_probe
from probes.canary.report import probe_json
from probes.canary.task import ProbeTask
from probes.clock import SystemClock
from probes.sample import ProbeResult

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
    add_examples(
        parser,
        "slo-agent probe http://vllm-0:8000",
        "SLO_AGENT_TOKEN=$KEY slo-agent probe https://llm.example.com --model my-model --json",
    )


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
    for line in _lines(result):
        print(line)
    return 0 if result.is_ok else 1


def _lines(result: ProbeResult) -> Iterator[str]:
    """For people. What a failed canary could not measure is left out; of a good one it is unknown."""
    yield f"outcome        {result.outcome}{'  (' + result.detail + ')' if result.detail else ''}"
    times = {
        "TTFT": result.ttft_seconds,
        "TPOT": result.tpot_seconds,
        "ITL max": max(result.itl_gaps_seconds, default=None),
        "E2E": result.e2e_seconds,
    }
    counts = {"prompt": result.prompt_tokens, "cached": result.cached_tokens, "output": result.output_tokens}
    rows = {"model": result.model or None}
    rows |= {name: None if value is None else _milliseconds(value) for name, value in times.items()}
    rows |= {f"{name} tokens": None if count is None else f"{count:,}" for name, count in counts.items()}
    yield from (f"{name:<14} {word or 'unknown'}" for name, word in rows.items() if word or result.is_ok)
    phases = "  ".join(f"{name} {_milliseconds(value)}" for name, value in result.phases.items() if value is not None)
    if phases:
        yield f"phases         {phases}"
    if result.is_ok and result.timing_error_seconds is not None:
        yield f"timing error   {_milliseconds(result.timing_error_seconds)}: no time above is wrong by more"
    for number, flag in enumerate(result.flags):
        yield f"{'' if number else 'noticed':<14} {flag_words(flag)}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
