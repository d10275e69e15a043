"""The engines of one target beside each other: with data parallelism one slow rank hides in the sums of all."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from agent.windows import EngineKey, Increment

SLOW_TIMES = 2.0  # ranks of one deployment do the same work; twice the others' gap is no matter of load
LEAST_GAPS = 200.0  # fewer say little of a mean


@dataclass(frozen=True, slots=True)
class SlowRank:
    """An engine whose tokens come much slower than those of the others behind the same address, seconds."""

    target: str
    engine: str
    itl_mean_seconds: float
    others_seconds: float


def itl_mean_by_engine(increments: Iterable[Increment]) -> Mapping[EngineKey, float]:
    """Mean gap between two tokens, seconds, of each engine that shares its target and its model with others; empty
    without such.

    An engine with too few gaps, or whose page has no sum, has none.
    """
    counts: dict[EngineKey, float] = defaultdict(float)
    sums: dict[EngineKey, float | None] = defaultdict(float)
    for increment in increments:
        gaps = increment.histograms.get("itl_seconds")
        if gaps is None:
            continue
        so_far = sums[increment.key]
        counts[increment.key] += gaps.count
        sums[increment.key] = None if so_far is None or gaps.total is None else so_far + gaps.total
    means = {key: total / counts[key] for key, total in sums.items() if total is not None and counts[key] >= LEAST_GAPS}
    pools = Counter((key.target, key.model) for key in means)
    return {key: mean for key, mean in means.items() if pools[key.target, key.model] > 1}


def slow_rank(increments: Iterable[Increment]) -> SlowRank | None:
    """The slowest engine where it is slow beside the others of its target that serve the same model; None where all
    are alike, or unknown.
    """
    means = itl_mean_by_engine(increments)
    found = []
    for key, mean in means.items():
        pool = {rank: other for rank, other in means.items() if (rank.target, rank.model) == (key.target, key.model)}
        others = median(other for rank, other in pool.items() if rank != key)
        if mean >= SLOW_TIMES * others:
            found.append(SlowRank(key.target, key.engine, mean, others))
    return max(found, key=lambda rank: rank.itl_mean_seconds, default=None)
