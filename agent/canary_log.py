"""Canary results for people: the latest ones, failures kept longer, and histograms since the start."""

import bisect
import math
from collections import deque
from dataclasses import dataclass, field
from itertools import accumulate

from agent.model import LatencyTotal
from probes.names.vllm import DEFAULT_EDGES
from probes.sample import HistogramSample, ProbeResult

KEPT = 60
# vLLM's own edges, so that canary and engine stand on one axis
EDGES = {
    signal: (*DEFAULT_EDGES[signal], math.inf)
    for signal in ("ttft_seconds", "itl_seconds", "tpot_seconds", "e2e_seconds")
}


@dataclass(slots=True)
class _Counting:
    counts: list[int]
    total: float = 0.0


@dataclass(slots=True)
class CanaryLog:
    """What canaries brought since the start. Only successful ones enter the histograms: a failure has no latency."""

    _good: deque[ProbeResult] = field(default_factory=lambda: deque(maxlen=KEPT))
    _failed: deque[ProbeResult] = field(default_factory=lambda: deque(maxlen=KEPT))
    _histograms: dict[tuple[str, str, str], _Counting] = field(default_factory=dict)

    def take(self, result: ProbeResult) -> None:
        """Keep one result."""
        (self._good if result.is_ok else self._failed).append(result)
        if not result.is_ok or not result.feels_like_a_user:
            return
        figures = {
            "ttft_seconds": [result.ttft_seconds],
            "tpot_seconds": [result.tpot_seconds],
            "e2e_seconds": [result.e2e_seconds],
            "itl_seconds": result.itl_gaps_seconds,
        }
        for signal, values in figures.items():
            for value in values:
                if value is not None:
                    self._observe(result, signal, value)

    def recent(self) -> list[ProbeResult]:
        """The latest results, newest first."""
        return sorted([*self._good, *self._failed], key=lambda result: result.at_seconds, reverse=True)

    def totals(self) -> list[LatencyTotal]:
        """One histogram per target, model and latency."""
        return [
            LatencyTotal(
                target,
                "canary",
                HistogramSample(signal, "", model, EDGES[signal], tuple(accumulate(map(float, c.counts))), c.total),
            )
            for (target, model, signal), c in self._histograms.items()
        ]

    def _observe(self, result: ProbeResult, signal: str, value: float) -> None:
        place = (result.target, result.model, signal)
        counting = self._histograms.setdefault(place, _Counting([0] * len(EDGES[signal])))
        counting.counts[bisect.bisect_left(EDGES[signal], value)] += 1
        counting.total += value
