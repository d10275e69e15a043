"""Good and bad requests as a router counts them: those too that never reached an engine, or were cut off."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.model import Counts, SliName, Slo
from agent.signals.outcomes import outcomes_of
from agent.stats.buckets import split_at
from agent.windows import EngineKey, Increment

HISTOGRAMS: Mapping[SliName, str] = {
    "ttft": "router_ttft_seconds",
    "itl": "router_itl_seconds",
    "tpot": "router_tpot_seconds",
    "e2e": "router_e2e_seconds",
}


@dataclass(slots=True)
class RouterBook:
    """Requests that were counted as answered when they went out, and failed a page later: each counts once.

    By SLO and router; so many of the next answered ones are left out. Not kept over a restart of ours.
    """

    overdrawn: dict[tuple[str, EngineKey], float] = field(default_factory=dict)

    def count(self, slo: Slo, increment: Increment) -> Counts:
        """What one increment of a router adds to an SLO."""
        if slo.sli == "availability":
            return self._availability(slo, increment)
        buckets = increment.histograms.get(HISTOGRAMS.get(slo.sli, ""))
        if buckets is None or slo.threshold_seconds is None:
            return Counts()
        return split_at(buckets, slo.threshold_seconds)

    def _availability(self, slo: Slo, increment: Increment) -> Counts:
        outcomes = outcomes_of(increment.key.source, increment.counters)
        before = self.overdrawn.pop((slo.name, increment.key), 0.0) + outcomes.overdrawn
        left_out = min(before, outcomes.answered)
        if before > left_out:
            self.overdrawn[slo.name, increment.key] = before - left_out
        return Counts(good=outcomes.answered - left_out, bad=outcomes.failures)
