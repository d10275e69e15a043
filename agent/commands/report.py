"""`slo-agent report`: signals over exactly one stretch of a recording."""

import argparse
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill

from agent.commands.common import add_config, add_examples, add_json, finite, moment, print_json, short
from agent.config import Goodput
from agent.config_file import load_config
from agent.errors import UsageError
from agent.model import Figure, Latency
from agent.outputs.jsonable import signals_json
from agent.planning import all_targets, energy_price, make_plan
from agent.report import Report, report
from agent.signals.model import Economics, KvTransfer, Level, ObjectStore, PdService, RouterWork, Signals, Workload
from agent.signals.read import LATENCIES, Question
from agent.stats.goodput import GoodputTarget
from agent.stretch import Stretch

Part = Signals | KvTransfer | PdService | RouterWork | ObjectStore | Workload | Economics
PARTS = (KvTransfer, PdService, RouterWork, ObjectStore, Workload, Economics)  # signals that have signals of their own


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("recording", type=Path, metavar="REC", help="a recording, .jsonl.gz")
    add_config(parser, required=False)
    when = "2026-01-31T12:00:00Z or unix seconds"
    parser.add_argument("--from", dest="start", type=moment, metavar="T", help=f"{when}; default: its beginning")
    parser.add_argument("--to", dest="end", type=moment, metavar="T", help=f"{when}; default: its end")
    parser.add_argument("--target", metavar="NAME", help="only this target")
    parser.add_argument(
        "--goodput", metavar="ttft:X,tpot:Y", help="thresholds in seconds; default: those of the config"
    )
    parser.add_argument(
        "--threshold",
        action="append",
        default=[],
        metavar="SIGNAL=SECONDS",
        help="share of events above it; repeatable",
    )
    parser.add_argument("--gpu-price", type=finite, metavar="P", help="dollars per GPU hour, for tokens per dollar")
    add_json(parser)
    add_examples(
        parser,
        "slo-agent report rec.jsonl.gz",
        "slo-agent report rec.jsonl.gz --from 2026-01-31T12:00:00Z --to 2026-01-31T12:10:00Z",
        "slo-agent report rec.jsonl.gz --goodput ttft:2.5,tpot:0.05 --gpu-price 5.75",
        "slo-agent report rec.jsonl.gz -c agent.yaml --target vllm-0 --threshold ttft_seconds=1 --json",
    )


def run(options: argparse.Namespace) -> int:
    """Print the report. What it lacks an input for is unknown."""
    stretch = Stretch(options.start, options.end, options.target)
    if options.start is not None and options.end is not None and options.start >= options.end:
        raise UsageError(f"--from {options.start:.1f} is not before --to {options.end:.1f}", "Swap them.")
    answer = report(options.recording, stretch, _question(options), _price(options))
    if options.json:
        print_json(_json(answer))
    else:
        print(f"from {_when(answer.from_seconds)} to {_when(answer.to_seconds)}\n")
        # of one target, the total would only be the same again
        total = {"total": answer.total} if len(answer.targets) != 1 else {}
        for name, signals in {**answer.targets, **total}.items():
            _print(name, signals)
        for explanation in answer.explanations:
            print(fill(explanation.words, 110) + "\n")
        if not options.goodput and not options.config:
            print("goodput is unknown: give thresholds with --goodput ttft:2.5,tpot:0.05, or a config with -c FILE.")
    return 0


def _question(options: argparse.Namespace) -> Question:
    config = load_config(options.config) if options.config else None
    goodput = config.goodput if config else Goodput()
    target = GoodputTarget(goodput.ttft_seconds, goodput.tpot_seconds)
    if options.goodput:
        target = _goodput(options.goodput)
    return Question(
        target if options.goodput or options.config else None,
        [_threshold(t) for t in options.threshold],
        roles={one.name: one.role for one in config.targets if one.role} if config else {},
        energy=energy_price(config) if config else None,
    )


def _price(options: argparse.Namespace) -> dict[str, float] | float | None:
    """Dollars per second by target from the config, or one price for every GPU; None: no price is known."""
    if options.gpu_price is not None:
        if options.gpu_price < 0:
            raise UsageError(f"--gpu-price is {options.gpu_price}", "Write dollars per GPU hour, such as 5.75.")
        return float(options.gpu_price) / 3600
    if not options.config:
        return None
    config = load_config(options.config)
    facts = make_plan(config, all_targets(config, ())).targets
    return {name: f.dollars_per_second for name, f in facts.items() if f.dollars_per_second is not None}


def _goodput(text: str) -> GoodputTarget:
    parts = dict(part.partition(":")[::2] for part in text.split(","))
    try:
        if set(parts) == {"ttft", "tpot"} and min(limits := [finite(parts["ttft"]), finite(parts["tpot"])]) > 0:
            return GoodputTarget(*limits)
    except argparse.ArgumentTypeError:
        pass
    raise UsageError(f"--goodput is {text!r}", "Write seconds, such as --goodput ttft:2.5,tpot:0.05.")


def _threshold(text: str) -> tuple[str, float]:
    signal, _, seconds = text.partition("=")
    try:
        if signal in LATENCIES and (limit := finite(seconds)) > 0:
            return signal, limit
    except argparse.ArgumentTypeError:
        pass
    raise UsageError(f"--threshold is {text!r}", f"Write SIGNAL=SECONDS with one of {', '.join(LATENCIES)}.")


def _json(answer: Report) -> dict[str, object]:
    targets = {name: {"signals": signals_json(signals)} for name, signals in answer.targets.items()}
    total = {"signals": signals_json(answer.total)}
    explanations = [
        {
            "code": explanation.code,
            "words": explanation.words,
            "evidence": [
                {"signal": e.signal, "window_seconds": e.window_seconds, "value": e.value} for e in explanation.evidence
            ],
        }
        for explanation in answer.explanations
    ]
    span = {"from": answer.from_seconds, "to": answer.to_seconds}
    return {**span, "targets": targets, "total": total, "explanations": explanations}


def _when(at_seconds: float) -> str:
    return datetime.fromtimestamp(at_seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _print(name: str, signals: Signals) -> None:
    print(f"{name}  ({signals.seconds:.1f} s covered by readings)")
    missing: list[str] = []
    _print_fields(signals, "", missing)
    if missing and signals.requests_running is None:
        print("  unknown: all else, as no engine was read here (--json names it)")
    elif missing:
        print(fill("unknown: " + ", ".join(missing), 110, initial_indent="  ", subsequent_indent=" " * 11))
    print()


def _print_fields(part: Part, before: str, missing: list[str]) -> None:
    """One line a field; the names of those that are unknown go into `missing`."""
    for field in fields(part):
        value, name = getattr(part, field.name), before + field.name
        if value is None:
            missing.append(name)
        elif isinstance(value, Latency):
            unit, scale = ("tok", 1.0) if name.endswith("_tokens") else ("ms", 1000.0)
            figures = ((p, getattr(value, p)) for p in ("p50", "p90", "p95", "p99"))
            mean = short(None if value.mean is None else value.mean * scale)
            told = "  ".join(f"{p} {_bounded(f, scale)}" for p, f in figures)
            print(f"  {name:<32} {unit:<3} {told}  mean {mean}")
        elif isinstance(value, Figure):
            print(f"  {name:<32} {_figure(value)}")
        elif isinstance(value, Level):
            parts = (f"{word} {short(getattr(value, word), '?')}" for word in ("mean", "max", "last"))
            print(f"  {name:<32} {'  '.join(parts)}")
        elif isinstance(value, PARTS):
            _print_fields(value, f"{name}.", missing)
        elif isinstance(value, dict):
            for key, inner in value.items():
                text = _figure(inner) if isinstance(inner, Figure) or inner is None else _plain(inner)
                print(f"  {f'{name}[{key}]':<32} {text}")
        elif name != "seconds" and value != ():
            print(f"  {name:<32} {_plain(', '.join(value) if isinstance(value, tuple) else value)}")


def _plain(value: str | float | None) -> str:
    return value if isinstance(value, str) else short(value)


def _bounded(figure: Figure | None, scale: float) -> str:
    if figure is None:
        return "unknown"
    value, low, high = (None if x is None else x * scale for x in (figure.value, figure.low, figure.high))
    if low == high and value is not None:
        return short(value)
    return f"{short(value, '?')} [{short(low, '?')}..{short(high, 'inf')}]"


def _figure(figure: Figure | None) -> str:
    if figure is None:
        return "unknown"
    if figure.low == figure.high and figure.value is not None:
        return f"{short(figure.value)}  (n={figure.count:,.0f})"
    return f"[{short(figure.low, '?')}..{short(figure.high, '?')}]  (n={figure.count:,.0f})"
