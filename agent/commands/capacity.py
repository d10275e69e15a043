"""`slo-agent capacity`: the step-time model of an engine, and what it predicts at a load."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import get_args

from agent.advice.capacity import Binding, Limit, Objective, Prediction, Signal
from agent.capacity_report import CapacityAnswer, CapacityQuestion, capacity_report
from agent.commands.common import add_examples, add_json, finite, moment, print_json, short
from agent.errors import UsageError
from agent.model import Figure
from agent.outputs.capacity_json import capacity_json
from agent.stretch import Stretch

MOST_USERS = 100_000  # each is rehearsed: more take minutes, and queue as these do
ENDS = {"kv": "the KV cache is full", "seqs": "max_num_seqs is reached", "queue": "the queue grows without end"}
OBJECTIVES: tuple[tuple[Signal, float], ...] = (("ttft", 0.95), ("itl", 0.99))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("recording", type=Path, metavar="REC", help="a recording of a busy engine, .jsonl.gz")
    when = "2026-01-31T12:00:00Z or unix seconds"
    parser.add_argument("--from", dest="start", type=moment, metavar="T", help=f"learn from here on; {when}")
    parser.add_argument("--to", dest="end", type=moment, metavar="T", help=f"learn up to here; {when}")
    parser.add_argument("--target", metavar="NAME", help="the engine; needed where the recording has several")
    load = parser.add_argument_group("the load that is asked about")
    load.add_argument("--concurrency", type=int, metavar="N", help="N users, each with one request at a time")
    load.add_argument("--rate", type=finite, metavar="R", help="R requests a second, whatever is answered")
    load.add_argument("--input-tokens", type=finite, metavar="I", help="of a prompt; default: the observed mean")
    load.add_argument("--output-tokens", type=finite, metavar="O", help="of an answer; default: the observed mean")
    load.add_argument(
        "--range-ratio", type=finite, default=0.0, metavar="X", help="lengths spread over [1-X, 1+X] times the mean"
    )
    load.add_argument("--prefix-hit-ratio", type=finite, metavar="H", help="of the prompt tokens; default: observed")
    engine = parser.add_argument_group("what if")
    engine.add_argument("--max-num-batched-tokens", type=int, metavar="B", help="another token budget a step")
    engine.add_argument("--max-num-seqs", type=int, metavar="N", help="sequences at once; default: vLLM's, 256")
    promise = parser.add_argument_group("what is promised")
    promise.add_argument("--ttft-p95", type=finite, metavar="S", help="95 %% of first tokens come within S seconds")
    promise.add_argument("--itl-p99", type=finite, metavar="S", help="99 %% of gaps between tokens are no longer")
    promise.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="SIGNAL=SECONDS",
        help="predict the share above it: ttft_seconds, itl_seconds or tpot_seconds; repeatable",
    )
    add_json(parser)
    add_examples(
        parser,
        "slo-agent capacity rec.jsonl.gz",
        "slo-agent capacity rec.jsonl.gz --concurrency 32 --itl-p99 0.1 --ttft-p95 2.5",
        "slo-agent capacity rec.jsonl.gz --rate 1.5 --max-num-batched-tokens 2048 --threshold itl_seconds=0.05",
    )


def run(options: argparse.Namespace) -> int:
    """Print the answer; a load that is out of the model's domain is told with the reason, and is no failure."""
    answer = capacity_report(options.recording, Stretch(options.start, options.end, options.target), _question(options))
    if options.json:
        print_json(capacity_json(answer))
    else:
        print("\n".join(_lines(answer, options)))
    return 0


def _question(options: argparse.Namespace) -> CapacityQuestion:
    mistakes = [
        f"--{name.replace('_', '-')} is {value}, expected a number above 0"
        for name in (
            *("concurrency", "rate", "input_tokens", "output_tokens", "max_num_batched_tokens", "max_num_seqs"),
            *("ttft_p95", "itl_p99"),
        )
        if (value := getattr(options, name)) is not None and value <= 0
    ]
    mistakes += [
        f"--{name.replace('_', '-')} is {value:g}, expected at least 1"
        for name in ("input_tokens", "output_tokens")
        if (value := getattr(options, name)) is not None and 0 < value < 1
    ]
    if options.concurrency is not None and options.rate is not None:
        mistakes.append("--concurrency and --rate exclude each other")
    if options.concurrency is not None and options.concurrency > MOST_USERS:
        mistakes.append(
            f"--concurrency is {options.concurrency}, expected at most {MOST_USERS}: all wait for one engine"
        )
    if not 0 <= options.range_ratio < 1:
        mistakes.append(f"--range-ratio is {options.range_ratio}, expected 0 <= X < 1")
    if options.prefix_hit_ratio is not None and not 0 <= options.prefix_hit_ratio < 1:
        mistakes.append(f"--prefix-hit-ratio is {options.prefix_hit_ratio}, expected 0 <= H < 1")
    if options.start is not None and options.end is not None and options.start >= options.end:
        mistakes.append(f"--from {options.start:.1f} is not before --to {options.end:.1f}")
    if mistakes:
        raise UsageError("; ".join(mistakes), "See slo-agent capacity --help.")
    promised = ((signal, getattr(options, f"{signal}_p{100 * ratio:.0f}"), ratio) for signal, ratio in OBJECTIVES)
    return CapacityQuestion(
        options.concurrency,
        options.rate,
        options.input_tokens,
        options.output_tokens,
        options.range_ratio,
        options.prefix_hit_ratio,
        options.max_num_batched_tokens,
        options.max_num_seqs,
        tuple(Objective(signal, seconds, ratio) for signal, seconds, ratio in promised if seconds is not None),
        tuple(_threshold(text) for text in options.threshold),
    )


def _threshold(text: str) -> tuple[Signal, float]:
    name, _, seconds = text.partition("=")
    for signal in get_args(Signal):
        try:
            if name == f"{signal}_seconds" and (limit := finite(seconds)) > 0:
                return signal, limit
        except argparse.ArgumentTypeError:
            break
    names = ", ".join(f"{signal}_seconds" for signal in get_args(Signal))
    raise UsageError(f"--threshold is {text!r}", f"Write SIGNAL=SECONDS with one of {names}.")


def _lines(answer: CapacityAnswer, options: argparse.Namespace) -> Iterator[str]:
    steps, (sequences, kv) = answer.steps, answer.at
    yield f"{answer.target}: one step takes"
    yield f"  {steps.overhead_seconds * 1e3:.2f} ms, whatever is in it"
    each = steps.prefill_seconds_per_token
    cost = f"{each * 1e6:.1f} us" if each > 0 else "something unknown (hardly any was computed here)"
    yield f"  + {cost} per prompt token that is computed"
    decode = steps.decode_seconds(sequences, kv)
    yield f"  + {decode * 1e3:.2f} ms where {sequences:.0f} sequences decode over {kv:,.0f} KV tokens"
    yield f"  (from {steps.samples} busy stretches; the median one is missed by {100 * steps.error_ratio:.1f} %)"
    yield ""
    yield "assumed"
    for name, assumed in answer.assumed.items():
        yield f"  {name:<32} {short(assumed.value):>9}  {assumed.source}"
    for word, reasons in (("out of domain", answer.refusals), ("note", answer.warnings)):
        for reason in reasons:
            yield fill(f"{word}: {reason}", 110, initial_indent="  ", subsequent_indent="    ")
    if answer.prediction is not None:
        yield ""
        yield from _predicted(answer.prediction, answer.as_is)
    yield from _limits(answer, options)


def _predicted(prediction: Prediction, as_is: Prediction | None) -> Iterator[str]:
    head = "predicted, with its 95 % interval"
    yield head if as_is is None else f"{head:<72} with the budget as it is"
    for field in prediction.__dataclass_fields__:
        figure = getattr(prediction, field)
        if isinstance(figure, Figure):
            other = "" if as_is is None else _told(field, getattr(as_is, field))
            yield f"  {field:<30} {_told(field, figure):<40} {other}".rstrip()
    for name, figure in prediction.over_threshold_ratio.items():
        other = "" if as_is is None else _told(name, as_is.over_threshold_ratio[name])
        yield f"  {f'share of {name}':<30} {_told(name, figure):<40} {other}".rstrip()
    verdict = {True: "yes", False: f"no: {_broken(prediction.binding)}", None: "not surely"}[prediction.meets_slo]
    if prediction.meets_slo is not None or prediction.binding:
        yield f"  {'keeps what is promised':<30} {verdict}"


def _told(name: str, figure: Figure | None) -> str:
    if figure is None:
        return "unknown"
    if ">" in name:
        scale, unit = 100.0, "%"
    elif name.endswith("_seconds"):
        scale, unit = 1000.0, "ms"
    else:
        scale, unit = 1.0, "/s"
    value, low, high = (None if x is None else x * scale for x in (figure.value, figure.low, figure.high))
    return f"{short(value)} {unit} [{short(low)}..{short(high)}]"


def _limits(answer: CapacityAnswer, options: argparse.Namespace) -> Iterator[str]:
    if answer.concurrency_limit is None or answer.rate_limit is None:
        return
    yield ""
    users, rate = answer.concurrency_limit, answer.rate_limit
    yield f"carries {_span(users, 0)} users at once; {_broken(users.binding)} at {users.value + 1:.0f}"
    yield f"carries {_span(rate, 2)} requests/s; beyond it, {_broken(rate.binding)}"
    if options.ttft_p95 is not None or options.itl_p99 is not None:
        proven = answer.proven
        yield (
            "seen so far: in no quarter minute was the promise kept"
            if proven.running is None
            else "seen so far: the busiest quarter minute that kept the promise had "
            f"{proven.running:.1f} requests running; the one with most requests began {short(proven.rate)}/s"
        )


def _broken(binding: Binding | None) -> str:
    return ENDS.get(binding or "", f"{binding} breaks")


def _span(limit: Limit, digits: int) -> str:
    return f"{limit.value:.{digits}f} [{limit.low:.{digits}f}..{limit.high:.{digits}f}]"
