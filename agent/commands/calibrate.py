"""`slo-agent calibrate URL`: drive a server with `vllm bench serve`, learn what it carries, and show how well."""

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from agent.advice.rehearsal import Load
from agent.capacity_report import CapacityAnswer, CapacityQuestion, capacity_report
from agent.commands.bench_runs import BenchResult, BenchRun, BenchSettings, bench_all
from agent.commands.common import add_examples, add_json, duration_seconds, finite, print_json
from agent.errors import UsageError
from agent.outputs.capacity_json import capacity_json
from agent.render.calibration import Compared, compared, html
from agent.stretch import EmptyStretchError, Stretch
from probes.clock import SystemClock

RECORDING = "recording.jsonl.gz"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("url", metavar="URL", help="base address of a vLLM server that serves nobody else meanwhile")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder for what comes out")
    parser.add_argument("--model", required=True, help="the served model name")
    parser.add_argument("--tokenizer", help="what makes the prompts; default: the model")
    parser.add_argument(
        "--vllm", default="vllm", metavar="CMD", help="how vLLM's command is called; default: %(default)s"
    )
    load = parser.add_argument_group("the load")
    load.add_argument("--rates", type=_numbers, default=(), metavar="R,R,...", help="open loop: requests a second")
    load.add_argument(
        "--burstiness", type=finite, default=1.0, help="of the open loop; 1 is Poisson, smaller is burstier; default: 1"
    )
    load.add_argument(
        "--concurrency", type=_whole_numbers, default=(1, 2, 4, 8), metavar="N,N,...", help="users; default: 1,2,4,8"
    )
    load.add_argument("--input-tokens", type=int, default=1024, help="of a prompt; default: %(default)s")
    load.add_argument("--output-tokens", type=int, default=128, help="of an answer; default: %(default)s")
    load.add_argument(
        "--range-ratio",
        type=finite,
        default=0.0,
        metavar="X",
        help="lengths uniform in [n(1-X), n(1+X)], so that users of a closed loop do not walk in step; default: 0",
    )
    load.add_argument("--requests", type=int, default=24, help="of a run, at least; default: %(default)s")
    load.add_argument(
        "--timeout", type=duration_seconds, default=1800.0, metavar="30m", help="of one run; default: 30 minutes"
    )
    add_json(parser)
    add_examples(
        parser,
        "slo-agent calibrate http://127.0.0.1:8000 --model llama8b --rates 0.5,1,2 --out calibration",
        "slo-agent calibrate http://127.0.0.1:8000 --model llama8b --input-tokens 8192 --output-tokens 1024 "
        "--concurrency 1,4,8,16 --out calibration",
    )


def run(options: argparse.Namespace) -> int:
    """Writes the recording, the client's results, the profile and the report; the largest concurrency is held out."""
    runs = _runs(options)
    if options.out.exists():
        raise UsageError(f"{options.out} is there already", "Name a folder that is not: nothing is overwritten.")
    options.out.mkdir(parents=True)
    settings = BenchSettings(
        options.url.rstrip("/"),
        options.model,
        options.vllm,
        options.tokenizer,
        options.input_tokens,
        options.output_tokens,
        options.range_ratio,
        options.burstiness,
        options.requests,
        options.timeout,
    )
    results = asyncio.run(bench_all(settings, runs, options.out, SystemClock(), lambda text: print(text, flush=True)))
    load = Load(options.input_tokens, options.output_tokens, spread_ratio=options.range_ratio)
    return report(options.out, results, load, as_json=options.json)


def report(folder: Path, results: Sequence[BenchResult], load: Load, *, as_json: bool) -> int:
    """Fit, compare with the clients, and write profile.json and report.html. Exit code 0, whatever was found.

    Of the load, only the lengths are read.
    """
    held_out = max((r for r in results if r.run.concurrency), key=lambda r: r.run.concurrency or 0, default=None)
    before = None if held_out is None else held_out.from_seconds
    question = CapacityQuestion(input_tokens=load.input_tokens, output_tokens=load.output_tokens)
    profile = capacity_report(folder / RECORDING, Stretch(), question)
    rows = [_compared(result, profile, load) for result in results]
    check = None
    if held_out is not None and len(results) > 1:
        try:
            learned = capacity_report(folder / RECORDING, Stretch(to_seconds=before), question)
            check = _compared(held_out, learned, load)
        except EmptyStretchError as error:
            print(f"nothing was held out: {error}")
    document = {**capacity_json(profile), "runs": [_row(row) for row in rows]}
    document["held_out"] = None if check is None else _row(check)
    (folder / "profile.json").write_text(json.dumps(document, indent=2, allow_nan=False), encoding="utf-8")
    (folder / "report.html").write_text(html(profile, rows, check), encoding="utf-8")
    if as_json:
        print_json(document)
    else:
        _print(profile, rows, check, folder)
    return 0


def _compared(result: BenchResult, answer: CapacityAnswer, load: Load) -> Compared:
    run = result.run
    return compared(run.name, result.client, answer, replace(load, concurrency=run.concurrency, rate=run.rate))


def _print(profile: CapacityAnswer, rows: Sequence[Compared], check: Compared | None, folder: Path) -> None:
    steps = profile.steps
    print(
        f"one step: {steps.overhead_seconds * 1e3:.2f} ms + {steps.prefill_seconds_per_token * 1e6:.1f} us a prompt "
        f"token + decode; the median stretch is missed by {100 * steps.error_ratio:.1f} %"
    )
    for reason in profile.refusals:
        print(f"out of domain: {reason}")
    print(f"{'run':<8} {'TPOT ms said':>13} {'measured':>9} {'TTFT ms said':>13} {'measured':>9}")
    for row in rows:
        print(
            f"{row.name:<8} {row.tpot_said * 1e3:>13.1f} {row.tpot_measured * 1e3:>9.1f} "
            f"{row.ttft_said * 1e3:>13.0f} {row.ttft_measured * 1e3:>9.0f}"
        )
    if check is not None:
        print(
            f"held out, learned without it: {check.name}: TPOT {check.tpot_said * 1e3:.1f} ms said, "
            f"{check.tpot_measured * 1e3:.1f} measured ({100 * (check.tpot_said / check.tpot_measured - 1):+.0f} %)"
        )
    print(f"wrote {folder / RECORDING}, profile.json, report.html")


def _row(row: Compared) -> dict[str, object]:
    return {
        "run": row.name,
        "concurrency": row.concurrency,
        "rate_per_second": row.rate,
        "tpot_mean_seconds": {"predicted": row.tpot_said, "measured": row.tpot_measured},
        "ttft_mean_seconds": {"predicted": row.ttft_said, "measured": row.ttft_measured},
        "itl_p99_seconds": {"predicted": row.itl_p99_said, "measured": row.itl_p99_measured},
    }


def _runs(options: argparse.Namespace) -> list[BenchRun]:
    """Open loops first, then users, few before many. Raises UsageError with every mistake."""
    mistakes = []
    if urlsplit(options.url).scheme not in ("http", "https"):
        mistakes.append(f"{options.url} is no address such as http://127.0.0.1:8000")
    mistakes += [
        f"--{name.replace('_', '-')} is {value}, expected a number above 0"
        for name in ("input_tokens", "output_tokens", "requests", "burstiness")
        if (value := getattr(options, name)) <= 0
    ]
    if not 0 <= options.range_ratio < 1:
        mistakes.append(f"--range-ratio is {options.range_ratio}, expected 0 <= x < 1")
    if options.output_tokens == 1:
        mistakes.append("--output-tokens is 1: one token has no gap to the next")
    if not options.rates and not options.concurrency:
        mistakes.append("neither --rates nor --concurrency is given")
    if mistakes:
        raise UsageError("; ".join(mistakes), "See slo-agent calibrate --help.")
    open_loops = [BenchRun(rate=rate) for rate in sorted(set(options.rates))]
    return open_loops + [BenchRun(concurrency=users) for users in sorted(set(options.concurrency))]


def _numbers(text: str) -> tuple[float, ...]:
    numbers = tuple(finite(part) for part in text.split(",") if part.strip())
    if any(number <= 0 for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} holds a number that is not above 0")
    return numbers


def _whole_numbers(text: str) -> tuple[int, ...]:
    numbers = _numbers(text)
    if any(number != int(number) for number in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} holds a number that is not whole")
    return tuple(int(number) for number in numbers)
