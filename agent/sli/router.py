"""Good and bad requests as a router counts them: those too that never reached an engine, or were cut off."""

from collections.abc import Mapping

from agent.model import Counts, SliName, Slo
from agent.signals.outcomes import outcomes_of
from agent.stats.buckets import split_at
from agent.windows import Increment

HISTOGRAMS: Mapping[SliName, str] = {
    "ttft": "router_ttft_seconds",
    "itl": "router_itl_seconds",
    "tpot": "router_tpot_seconds",
    "e2e": "router_e2e_seconds",
}


def router_counts(slo: Slo, increment: Increment) -> Counts:
    """What one increment of a router adds to an SLO."""
    if slo.sli == "availability":
        outcomes = outcomes_of(increment.key.source, increment.counters)
        return Counts(good=outcomes.answered, bad=outcomes.failures)
    buckets = increment.histograms.get(HISTOGRAMS.get(slo.sli, ""))
    return Counts() if buckets is None or slo.threshold_seconds is None else split_at(buckets, slo.threshold_seconds)
