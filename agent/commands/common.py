"""What several commands share: the config argument, JSON on stdout, logging, stopping on a signal."""

import argparse
import asyncio
import contextlib
import json
import logging
import math
import signal
import sys
import time
from datetime import datetime
from pathlib import Path


def add_config(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """The option -c FILE."""
    parser.add_argument("-c", "--config", type=Path, required=required, metavar="FILE", help="the config, YAML")


def add_json(parser: argparse.ArgumentParser) -> None:
    """The option --json."""
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of text")


def print_json(document: object) -> None:
    """One JSON document, readable. NaN and infinity are a fault and raise ValueError."""
    print(json.dumps(document, indent=2, allow_nan=False))


def log_to_stderr(level: str) -> None:
    """Events with fields, one a line."""
    logging.basicConfig(stream=sys.stderr, level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("apscheduler").setLevel(logging.ERROR)  # skipped runs are results and metrics of ours


def add_log_level(parser: argparse.ArgumentParser) -> None:
    """The option --log-level."""
    parser.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), default="info", help="default: %(default)s"
    )


def stop_event() -> asyncio.Event:
    """Set on SIGINT or SIGTERM. Call it inside the event loop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def finite(text: str) -> float:
    """A number that is not NaN and not infinite; for argparse."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return number


def moment(text: str) -> float:
    """Unix seconds from "1700000000.5" or an ISO time such as "2026-01-31T12:00:00Z"; for argparse.

    A time without a zone is one of this machine's.
    """
    with contextlib.suppress(argparse.ArgumentTypeError):
        return finite(text)
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError):
        mend = "write unix seconds or 2026-01-31T12:00:00Z"
        raise argparse.ArgumentTypeError(f"{text!r} is no number and no time; {mend}") from None


def duration_seconds(text: str) -> float:
    """Seconds from "90", "90s", "10m" or "1h"; for argparse."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90, 90s, 10m or 1h")
    return seconds


def past(text: str) -> float:
    """A moment as `moment` reads it, or so long ago as "30d" or "12h" say; for argparse."""
    if text[-1:] in ("s", "m", "h", "d"):
        return time.time() - duration_seconds(text)
    return moment(text)


def percent(ratio: float) -> str:
    """0.999 -> "99.9 %", as long as it must be and no longer."""
    return f"{100 * ratio:.6g} %"


def count_of(number: int, noun: str) -> str:
    """1 -> "1 target", 2 -> "2 targets"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def add_examples(parser: argparse.ArgumentParser, *lines: str) -> None:
    """Examples under the help, as they are to be typed."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    words = [f"{parser.epilog}\n"] if parser.epilog else []
    parser.epilog = "\n".join([*words, "examples:", *(f"  {line}" for line in lines)])


def short(number: float | None, unknown: str = "unknown") -> str:
    """A number for people: four digits, or all before the point; never an exponent."""
    if number is None:
        return unknown
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.4g}" if number == 0 or abs(number) >= 1e-4 else f"{number:.7f}"
