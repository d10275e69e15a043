"""Goodput: the share of requests that keep TTFT *and* TPOT, exactly from single requests, as bounds from histograms.

Two histograms do not say which requests kept both. What they do say (Frechet 1935): at least a + c - 1 of the
requests, at most the smaller of a and c. The TTFT histogram counts requests by their first token and the TPOT
histogram by their end, so the requests in flight when the window begins widen the bounds further; those that are in
flight when it ends, or whose client hung up, can only be among the slow ones that are taken off.
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


def goodput_bounds(
    ttft: Buckets | None, tpot: Buckets | None, failed: float | None, before: float | None, target: GoodputTarget
) -> Figure | None:
    """Bounds on the share of finished requests that kept both thresholds; None without finished requests.

    `failed` finished requests are never good. `before` is how many requests may have had their first token before the
    window and no end: of those the TTFT histogram says nothing. Where either is unknown, it proves nothing.

    At least: who finished, less who was too slow by TPOT, by TTFT, who failed and who came before. At most: who was
    fast enough by TPOT and did not fail; and who was by TTFT, or came before.
    """
    if ttft is None or tpot is None or tpot.count <= 0:
        return None
    finished = tpot.count
    first, pace = split_at(ttft, target.ttft_seconds), split_at(tpot, target.tpot_seconds)
    most = min(pace.good + pace.undecided, finished - (failed or 0.0))
    least = 0.0
    if before is not None:
        most = min(most, first.good + first.undecided + before)
        if failed is not None:
            least = pace.good - (first.bad + first.undecided) - before - failed
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

    `results` are those that say something about the service. A canary with a figure that the stream could not show is
    undecided, as is one whose times are not true: it widens the bounds instead of being guessed.
    """
    counts = Counts()
    for result in results:
        counts += _verdict(result, target)
    if counts.total <= 0:
        return None
    low, high = counts.good / counts.total, (counts.good + counts.undecided) / counts.total
    value = low if low == high else None
    return Figure(value, low, high, counts.total, *share_interval(low, high, counts.total))


def _verdict(result: ProbeResult, target: GoodputTarget) -> Counts:
    kept = ((result.ttft_seconds, target.ttft_seconds), (result.tpot_seconds, target.tpot_seconds))
    if result.is_ok and not result.is_timed_well:
        return Counts(undecided=1)
    if not result.is_ok or any(figure is not None and figure > most for figure, most in kept):
        return Counts(bad=1)
    return Counts(undecided=1) if any(figure is None for figure, _ in kept) else Counts(good=1)
