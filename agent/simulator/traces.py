"""Recorded traffic: readers of published traces, and a workload that replays them."""

import ast
import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from math import inf
from pathlib import Path
from random import Random

from agent.simulator.arrivals import Arrivals
from agent.simulator.ask import Ask, Sequence
from agent.simulator.lengths import Weighted
from agent.simulator.workload import OpenLoop, Prompts


class Replay:
    """Requests at their recorded times (seconds since the first), moved to `start_seconds`, `speed` times as fast."""

    is_reactive = False

    def __init__(self, requests: Iterator[tuple[float, Ask]], start_seconds: float, *, speed: float = 1.0) -> None:
        self._requests = requests
        self._start_seconds = start_seconds
        self._speed = speed
        self._next = next(requests, None)

    def next_seconds(self, until_seconds: float) -> float:
        if self._next is None:
            return inf
        at_seconds = self._start_seconds + self._next[0] / self._speed
        return at_seconds if at_seconds <= until_seconds else inf

    def take(self) -> Ask:
        if self._next is None:
            raise StopIteration
        ask = self._next[1]
        self._next = next(self._requests, None)
        return ask

    def ended(self, sequence: Sequence, now_seconds: float) -> None:
        """A recording does not listen."""


def azure(path: Path) -> Iterator[tuple[float, Ask]]:
    """Azure LLM inference trace 2023: TIMESTAMP, ContextTokens, GeneratedTokens. Prompts share nothing."""
    with path.open(encoding="utf-8", newline="") as lines:
        first: datetime | None = None
        for index, row in enumerate(csv.DictReader(lines)):
            at = datetime.fromisoformat(row["TIMESTAMP"][:26])
            first = first or at
            tokens = max(1, int(row["ContextTokens"])), max(1, int(row["GeneratedTokens"]))
            yield (at - first).total_seconds(), Ask(f"azure{index}", *tokens)


def mooncake(path: Path) -> Iterator[tuple[float, Ask]]:
    """Mooncake trace: timestamp (ms), lengths, hash_ids of 512-token blocks (the last may be partial)."""
    with path.open(encoding="utf-8") as lines:
        for index, line in enumerate(lines):
            row = json.loads(line)
            ask = Ask(f"mooncake{index}", row["input_length"], max(1, row["output_length"]), tuple(row["hash_ids"]))
            yield row["timestamp"] / 1000, ask


@dataclass(frozen=True, slots=True)
class Window:
    """One ServeGen window of one client: requests per second, CV of the gaps, and lengths."""

    start_seconds: float
    rate_per_second: float
    cv: float
    prompts: Prompts


WINDOW_SECONDS = 600.0  # data/SOURCES.md: ServeGen publishes 600-s windows


def servegen(trace: Path, dataset: Path) -> list[Window]:
    """One ServeGen client: rate and CV by window from the CSV, length distributions by window from the JSON."""
    lengths = json.loads(dataset.read_text(encoding="utf-8"))
    starts = sorted(int(start) for start in lengths)
    windows = []
    with trace.open(encoding="utf-8", newline="") as lines:
        for row in csv.reader(lines):
            start = float(row[0])
            known = max((known for known in starts if known <= start), default=starts[0])
            its = lengths[str(known)]
            prompts = Prompts(_weighted(its["input_tokens"]), _weighted(its["output_tokens"]))
            windows.append(Window(start, float(row[1]), float(row[2]), prompts))
    return windows


def windowed(
    windows: list[Window], rng: Random, draws: Random, start_seconds: float, *, scale: float = 1.0
) -> OpenLoop:
    """A workload that follows the windows, with `scale` times their rate; it ends with the last one."""

    def at(seconds: float) -> Window | None:
        index = int(seconds // WINDOW_SECONDS)
        return windows[index] if 0 <= index < len(windows) else None

    def rate(seconds: float) -> float:
        window = at(seconds)
        return window.rate_per_second * scale if window else 0.0

    def cv(seconds: float) -> float:
        window = at(seconds)
        return window.cv if window else 1.0

    arrivals = Arrivals(rate, rng, start_seconds, cv=cv)
    return OpenLoop(arrivals, lambda seconds: (at(seconds - start_seconds) or windows[-1]).prompts, draws)


def _weighted(text: str) -> Weighted:
    table: dict[int, float] = ast.literal_eval(text)
    return Weighted(tuple(table), tuple(table.values()))
