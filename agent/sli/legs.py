"""Events of a service whose requests prefill on one instance and decode on another: each request counts once.

A request's own two halves cannot be told together from two pages. Each half gets its part of the limit: a request with
both halves within theirs is good for certain, one with a half over the whole limit is bad for certain, and the others
are undecided, when they get to decode.
"""

from dataclasses import dataclass

from agent.model import Counts, SliName, Slo
from agent.stats.buckets import split_at
from agent.windows import Increment

HALVES = ("prefill", "decode")
ADDED: dict[SliName, tuple[str, float]] = {"ttft": ("ttft_seconds", 0.2), "e2e": ("e2e_seconds", 0.8)}
"""SLIs that both halves add to: the histogram of the decode half, and the part of the limit that half gets."""
ON_PREFILL: tuple[SliName, ...] = ("queue",)  # on a decode instance, the pulling of KV counts as queueing
ON_DECODE: tuple[SliName, ...] = ("availability", "itl", "tpot")


@dataclass(slots=True)
class Legs:
    """What the decode half must know of the prefill half, for one SLO: whole requests, on their way or gone."""

    charged: float = 0.0  # so many were bad in prefill already: as many are left out when they get to decode
    doubtful: float = 0.0  # so many took more than their part of the limit in prefill

    def count(self, slo: Slo, role: str, counts: Counts, increment: Increment, decode_limit: float) -> Counts:
        """What `counts`, one half's events against the whole limit, add to the service's."""
        if slo.sli not in ADDED:
            return _one_half(slo, role, counts)
        limit = slo.threshold_seconds or 0.0
        if role == "prefill":
            self.charged += counts.bad
            self.doubtful += max(0.0, _over(increment, "e2e_seconds", limit - decode_limit) - counts.bad)
            return Counts(bad=counts.bad)
        doubtful = max(0.0, _over(increment, ADDED[slo.sli][0], decode_limit) - counts.bad)
        return self._decoded(counts, doubtful)

    def _decoded(self, counts: Counts, doubtful: float) -> Counts:
        left_out = min(self.charged, counts.total)
        self.charged -= left_out
        places = counts.total - left_out
        same = min(counts.bad, left_out)  # these may be the very ones that were bad in prefill
        bad = min(counts.bad - same, places)
        undecided = min(self.doubtful + doubtful + same, places - bad)
        self.doubtful -= min(self.doubtful, undecided)
        return Counts(places - bad - undecided, bad, undecided)


def decode_limit(slo: Slo, increment: Increment) -> float | None:
    """The part of the limit that the decode half gets: an edge of its own histogram; None where there is none."""
    if slo.sli not in ADDED or slo.threshold_seconds is None:
        return None
    signal, share = ADDED[slo.sli]
    buckets = increment.histograms.get(signal)
    edges = [e for e in buckets.edges if e <= share * slo.threshold_seconds] if buckets else []
    return max(edges, default=None)


def _one_half(slo: Slo, role: str, counts: Counts) -> Counts:
    """SLIs of one half alone. Requests that fail in prefill never get to decode: they count where they failed."""
    if slo.sli in ON_PREFILL:
        return counts if role == "prefill" else Counts()
    if slo.sli in ON_DECODE and role == "decode":
        return counts
    return Counts(bad=counts.bad) if slo.sli == "availability" else Counts()


def _over(increment: Increment, signal: str, limit: float) -> float:
    """So many may be over the limit."""
    buckets = increment.histograms.get(signal)
    if buckets is None:
        return 0.0
    split = split_at(buckets, limit)
    return split.bad + split.undecided
