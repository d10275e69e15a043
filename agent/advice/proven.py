"""The proven bound: the largest load under which the objectives were seen to be kept. No model, no guess."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.advice.capacity import Objective
from agent.signals.sums import add_up
from agent.stats.buckets import split_at
from agent.windows import Increment

PIECE_SECONDS = 15.0  # long enough to hold some hundred gaps and some requests
LEAST_EVENTS = {"itl": 200.0, "ttft": 10.0, "tpot": 10.0}


@dataclass(frozen=True, slots=True)
class Proven:
    """Mean requests running, and requests a second, of the best piece that kept every objective; None: none did."""

    running: float | None
    rate: float | None


def proven_load(increments: Sequence[Increment], objectives: Sequence[Objective]) -> Proven:
    """Over the increments of one engine, in pieces of a quarter minute. What a bucket leaves open counts as bad.

    Without objectives nothing can be kept, and nothing is proven.
    """
    kept = [piece for piece in _pieces(increments) if objectives and all(_keeps(piece, o) for o in objectives)]
    running = [level.mean for piece in kept if (level := add_up(piece).level("requests_running")) is not None]
    rates = [_rate(piece) for piece in kept]
    return Proven(max(running, default=None), max(rates, default=None))


def _pieces(increments: Sequence[Increment]) -> list[list[Increment]]:
    pieces: list[list[Increment]] = [[]]
    for increment in increments:
        pieces[-1].append(increment)
        if pieces[-1][-1].to_seconds - pieces[-1][0].from_seconds >= PIECE_SECONDS:
            pieces.append([])
    return pieces


def _keeps(piece: Sequence[Increment], objective: Objective) -> bool:
    buckets = add_up(piece).histogram(f"{objective.signal}_seconds")
    if buckets is None or buckets.count < LEAST_EVENTS[objective.signal]:
        return False
    counts = split_at(buckets, objective.threshold_seconds)
    return counts.good >= objective.objective_ratio * counts.total


def _rate(piece: Sequence[Increment]) -> float:
    sums = add_up(piece)
    ttft, seconds = sums.histogram("ttft_seconds"), sums.covered_seconds("vllm")
    return ttft.count / seconds if ttft is not None and seconds > 0 else 0.0
