"""Goodput: the share of requests that keep TTFT *and* TPOT, exactly from single requests, as bounds from histograms.

Two histograms do not say which requests kept both. What they do say (Frechet 1935): at least a + c - 1 of the
requests, at most the smaller of a and c. The TTFT histogram counts requests by their first token and the TPOT
histogram by their end, so the requests in flight at either edge of the window widen the bounds further.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.model import Counts, Figure
from agent.stats.buckets import Buckets, split_at
from agent.stats.interval import share_interval
from probes.sample import ProbeResult


@dataclass(frozen=True, slots=True)
class GoodputTarget:
    """What a good request keeps, seconds."""

    ttft_seconds: float
    tpot_seconds: float


@dataclass(frozen=True, slots=True)
class InFlight:
    """Requests running at the start and at the end of the window; None where no reading says so."""

    at_start: float | None
    at_end: float | None


def goodput_bounds(
    ttft: Buckets | None, tpot: Buckets | None, failed: float, in_flight: InFlight, target: GoodputTarget
) -> Figure | None:
    """Bounds on the share of finished requests that kept both thresholds; None without finished requests.

    `failed` finished requests are never good. Where the requests in flight at an edge are unknown, any number may have
    crossed it, and the TTFT histogram proves nothing on that side.
    """
    if ttft is None or tpot is None or tpot.count <= 0:
        return None
    finished = tpot.count
    first, pace = split_at(ttft, target.ttft_seconds), split_at(tpot, target.tpot_seconds)
    most = min(pace.good + pace.undecided, finished - failed)
    if in_flight.at_start is not None:
        most = min(most, first.good + first.undecided + in_flight.at_start)
    least = 0.0
    if in_flight.at_end is not None:
        least = max(0.0, first.good - in_flight.at_end) + pace.good - finished - failed
    high = max(0.0, most) / finished
    low = min(max(0.0, least) / finished, high)
    return Figure(low if low == high else None, low, high, finished)


def per_second(ratio: Figure | None, seconds: float) -> Figure | None:
    """Good requests per second, from their share of the requests that ended in `seconds`; None when unknown."""
    if ratio is None or seconds <= 0:
        return None
    rate = ratio.count / seconds
    value, low, high = (None if x is None else x * rate for x in (ratio.value, ratio.low, ratio.high))
    return Figure(value, low, high, ratio.count)


def exact_goodput(results: Iterable[ProbeResult], target: GoodputTarget) -> Figure | None:
    """The share of canaries that succeeded and kept both thresholds; None without canaries.

    A canary whose TPOT the stream could not show is undecided: it widens the bounds instead of being guessed.
    """
    counts = Counts()
    for result in results:
        counts += _verdict(result, target)
    if counts.total <= 0:
        return None
    low, high = counts.good / counts.total, (counts.good + counts.undecided) / counts.total
    value = low if low == high else None
    return Figure(value, low, high, counts.total, *share_interval(value, counts.total))


def _verdict(result: ProbeResult, target: GoodputTarget) -> Counts:
    if not result.is_ok or result.ttft_seconds is None or result.ttft_seconds > target.ttft_seconds:
        return Counts(bad=1)
    if result.tpot_seconds is None:
        return Counts(undecided=1)
    return Counts(good=1) if result.tpot_seconds <= target.tpot_seconds else Counts(bad=1)
