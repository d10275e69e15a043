"""What outputs and the page may see of the running agent: a read-only window onto it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.findings import Finding
from agent.gpu_pods import GpuPods
from agent.model import Counts, Snapshot
from agent.signals.model import LatencyTotal, Signals
from probes.sample import ProbeResult


@dataclass(frozen=True, slots=True)
class SignalsView:
    """Signals of every target and of all together, over the last `window_seconds`."""

    window_seconds: float
    targets: Mapping[str, Signals]
    total: Signals


class View(Protocol):
    """Read-only access to the agent. Nothing here waits, and nothing here changes anything."""

    def snapshot(self) -> Snapshot:
        """The state after the last tick."""
        ...

    def signals(self, window_seconds: float) -> SignalsView:
        """Rolling signals up to now; computed when asked for."""
        ...

    def latency_totals(self) -> Sequence[LatencyTotal]:
        """Histograms since start."""
        ...

    def event_totals(self) -> Mapping[str, Counts]:
        """Events counted since start, by SLO name."""
        ...

    def recent_probes(self) -> Sequence[ProbeResult]:
        """The latest canary results, newest first; failures are kept longer than successes."""
        ...

    def canary_findings(self) -> Sequence[Finding]:
        """What the canaries of each target come to, in words, and what comparing targets shows."""
        ...

    def gpu_pods(self) -> Sequence[GpuPods]:
        """Whose processes hold the memory of each GPU, newest reading; empty without GPUs."""
        ...

    def now_seconds(self) -> float:
        """The agent's clock, unix seconds."""
        ...

    def version(self) -> str:
        """The agent's version."""
        ...
