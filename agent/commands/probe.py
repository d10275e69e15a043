"""`slo-agent probe URL`: one canary, its figures, and an exit code."""

import argparse
import asyncio
import math
import os
import time
from collections.abc import Iterator

from pydantic import ValidationError

from agent.commands.common import add_examples, add_json, print_json
from agent.commands.probe_words import flag_words
from agent.errors import UsageError
from probes.canary.base_url import base_url
from probes.canary.chat import ChatCanary
from probes.canary.item import CanaryItem
from probes.canary.outcomes import OUTCOMES
from probes.canary.prober import run_probe
from probes.canary.report import probe_json
from probes.canary.task import ProbeTask
from probes.catalogue import CANARIES, CANARY_KINDS
from probes.clock import SystemClock
from probes.sample import ProbeResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("url", metavar="URL", help="base address, such as http://vllm:8000")
    parser.add_argument("--model", help="served model name; default: the first of /v1/models")
    parser.add_argument("--kind", choices=CANARY_KINDS, default="chat", help="kind of canary; default: %(default)s")
    parser.add_argument("--prompt", help=f"what is asked; default: {ChatCanary().prompt!r}, or the kind's own")
    parser.add_argument("--max-tokens", type=int, help=f"default: {ChatCanary().max_tokens}, or the kind's own")
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
        "slo-agent probe http://vllm-0:8000 --kind kv_reuse",
        "SLO_AGENT_TOKEN=$KEY slo-agent probe https://llm.example.com --model my-model --json",
    )


def run(options: argparse.Namespace) -> int:
    """Exit code 0 when the canary was answered, 1 when not, 2 for an address that is none."""
    if base_url(options.url) is None:
        raise UsageError(f"{options.url!r} is no http address", "Write one such as http://vllm:8000.")
    if options.max_tokens is not None and options.max_tokens < 2:
        raise UsageError(f"--max-tokens is {options.max_tokens}", "At least 2 are needed: one token has no TPOT.")
    task = ProbeTask(
        target=options.url,
        url=options.url,
        model=options.model,
        token=os.environ.get(options.token_env) or None,
        planned_at_seconds=time.time(),
        turn=int(time.time()),  # of several questions, not always the same
    )
    canary = _canary(options)
    result = asyncio.run(run_probe(canary.fill(task), SystemClock()))
    if options.json:
        print_json(probe_json(result))
        return 0 if result.is_ok else 1
    for line in _lines(result, has_output=canary.cost().output_tokens > 0):
        print(line)
    return 0 if result.is_ok else 1


def _canary(options: argparse.Namespace) -> CanaryItem:
    """The kind that is asked for, with what was given of its own; a pair's halves follow at once."""
    kind = next(item for item in CANARIES if item.model_fields["kind"].default == options.kind)
    given = {name: getattr(options, name) for name in ("prompt", "max_tokens") if getattr(options, name) is not None}
    for name in given.keys() - kind.model_fields.keys():
        option = f"--{name.replace('_', '-')}"
        raise UsageError(f"kind {options.kind} takes no {option}", f"Leave {option} out, or take --kind chat.")
    if options.kind == "kv_reuse":
        given["gaps_seconds"] = [1]
    try:
        return kind(**given)
    except ValidationError as error:
        mistake = error.errors()[0]
        raise UsageError(f"--{mistake['loc'][0]}: {mistake['msg']}", "See --help.") from None


def _lines(result: ProbeResult, *, has_output: bool) -> Iterator[str]:
    """For people. What a failed canary or a kind without output cannot tell is left out; else it is unknown."""
    yield f"outcome        {result.outcome}{'  (' + result.detail + ')' if result.detail else ''}"
    if not result.is_ok and result.outcome in OUTCOMES:
        yield f"{'that is':<14} {OUTCOMES[result.outcome].meaning}"
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
    yield from (
        f"{name:<14} {word or 'unknown'}" for name, word in rows.items() if word or (result.is_ok and has_output)
    )
    phases = "  ".join(f"{name} {_milliseconds(value)}" for name, value in result.phases.items() if value is not None)
    if phases:
        yield f"phases         {phases}"
    if result.is_ok and result.timing_error_seconds is not None:
        bar = math.ceil(result.timing_error_seconds * 10_000) / 10_000  # the times above are rounded to 0.1 ms
        yield f"timing error   {_milliseconds(bar)}: no time above is wrong by more"
    for name, value in result.figures.items():
        if value is not None:
            yield f"{name:<21}  {value:.6g}"
    for number, flag in enumerate(result.flags):
        yield f"{'' if number else 'noticed':<14} {flag_words(flag)}"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
