"""Canary results for people: the latest ones, failures kept longer, and histograms since the start."""

import bisect
import math
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain

from agent.signals.model import LatencyTotal
from probes.names.vllm import DEFAULT_EDGES
from probes.sample import HistogramSample, ProbeResult

KEPT = 60  # good ones of each target, and as many failed ones
RESTART_SECONDS = 60.0  # a canary runs no longer, and a process that begins again takes its time
MOST = 6_000  # of all targets; beyond it those that have most give up their oldest
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
    """What canaries brought since the start. Only successful ones enter the histograms: a failure has no latency, and
    one that this machine timed badly has none that is true.

    Every target has a log of its own, so that a busy or a failing one pushes no other's out.
    """

    _logs: dict[tuple[str, bool], deque[ProbeResult]] = field(default_factory=dict)  # target, went well
    _histograms: dict[tuple[str, str, str], _Counting] = field(default_factory=dict)

    def take(self, result: ProbeResult) -> None:
        """Keep one result."""
        log = self._logs.setdefault((result.target, result.is_ok), deque(maxlen=KEPT))
        log.append(replace(result, sent=()))
        if sum(map(len, self._logs.values())) > MOST:
            max(self._logs.values(), key=len).popleft()
        if not result.is_ok or not result.is_timed_well or not result.feels_like_a_user:
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
        return sorted(chain(*self._logs.values()), key=lambda result: result.at_seconds, reverse=True)

    def restarted(self, target: str, started_at_seconds: float) -> None:
        """The target's process is another one since then: what failed across that moment says so."""
        log = self._logs.get((target, False), deque())
        for place, result in enumerate(log):
            if (
                abs(result.planned_at_seconds - started_at_seconds) <= RESTART_SECONDS
                and "restarted" not in result.flags
            ):
                log[place] = replace(result, flags=(*result.flags, "restarted"))

    def forget(self, target: str) -> None:
        """A target that is no longer watched."""
        for is_ok in (True, False):
            self._logs.pop((target, is_ok), None)

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
