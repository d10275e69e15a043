"""Counting as one would write it down: every SLO, every reading, one after the other. The fast one must equal it."""

from collections.abc import Iterable, Mapping

from plain_time_buckets import TimeBuckets

from agent.model import Counts, Events, Slo
from agent.sli.canary import canary_events
from agent.sli.count import TargetFacts, concerns
from agent.sli.engine import (
    ended_requests,
    engine_counts,
    inside_at_end,
    outcomes_of,
    pending_for,
    waits_for_first_token,
)
from agent.sli.pending import PendingRequests
from agent.stats.buckets import Buckets
from agent.windows import EngineKey, Increment
from probes.sample import ProbeResult


class PlainCounting:
    """Its own buckets and balances, one of each for every SLO (and engine)."""

    def __init__(self, slos: tuple[Slo, ...], targets: Mapping[str, TargetFacts]) -> None:
        self.slos, self.targets = slos, targets
        self.events = {slo.name: TimeBuckets() for slo in slos}
        self.balances: dict[tuple[str, EngineKey], PendingRequests | None] = {}

    def count(self, increments: Iterable[Increment], probes: Iterable[ProbeResult], succeeded: set[str]) -> None:
        for slo in self.slos:
            buckets = self.events[slo.name]
            for increment in increments if slo.source == "engine" else ():
                key = increment.key
                if key.source == "vllm" and concerns(slo, self.targets.get(key.target), key.model):
                    balance = self.balances.setdefault((slo.name, key), pending_for(slo))
                    inside = inside_at_end(increment, first_token=waits_for_first_token(slo))
                    ended = ended_requests(slo, increment, outcomes_of(increment))
                    counts = engine_counts(slo, increment, ended, balance, inside)
                    buckets.begin(increment.to_seconds)
                    buckets.add(Events(increment.from_seconds, increment.to_seconds, counts))
            for result in probes if slo.source == "canary" else ():
                if concerns(slo, self.targets.get(result.target), result.model):
                    buckets.begin(result.planned_at_seconds)
                    buckets.add(canary_events(slo, result, has_succeeded=result.target in succeeded))


def plain_split(buckets: Buckets, threshold: float) -> Counts:
    """Bucket by bucket: at most the threshold, above it, around it."""
    good = bad = undecided = lower = 0.0
    for edge, count in zip(buckets.edges, buckets.counts, strict=True):
        if edge <= threshold:
            good += count
        elif lower >= threshold:
            bad += count
        else:
            undecided += count
        lower = edge
    return Counts(good, bad, undecided)
