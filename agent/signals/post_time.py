"""Whether the posting of KV transfers is why some gaps between tokens are long.

While a decode instance posts a transfer, its loop stands still, and every running request waits: posts of over T
seconds times the requests running then must be about as many as the gaps over T (104 to 117 % of them on two H200s).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.model import Evidence, Explanation
from agent.signals.sums import add_up
from agent.stats.buckets import Buckets, split_at
from agent.windows import EngineKey, Increment

LEAST_GAPS = 10.0  # long gaps; fewer are no tail
LEAST_SHARE = 0.002  # of all gaps
LEAST_POSTS = 5.0  # long posts
FAR_FROM_USUAL = 3.0  # mean gaps: what is shorter is no stall
FITS = (0.5, 2.0)  # predicted over seen


@dataclass(frozen=True, slots=True)
class _Tail:
    threshold: float
    gaps: float
    of: float
    posts: float
    explained: float


def post_time_explanation(increments: Iterable[Increment]) -> Explanation | None:
    """The cause with its evidence; None where posts do not explain the tail, or there is none."""
    every = sorted(increments, key=lambda increment: increment.to_seconds)
    sums = add_up(every)
    gaps, posts = sums.histogram("itl_seconds"), sums.histogram("nixl_post_seconds")
    if gaps is None or posts is None or not gaps.total or not gaps.count:
        return None
    tail = _tail(every, gaps, posts)
    if tail is None or not FITS[0] <= tail.explained / tail.gaps <= FITS[1]:
        return None
    pieces = sums.histogram("nixl_transfer_descriptors")
    each = pieces.total / pieces.count if pieces and pieces.total and pieces.count else None
    seconds = every[-1].to_seconds - every[0].from_seconds
    mend = f" A transfer has {each:,.0f} pieces: larger KV blocks (--block-size) have fewer." if each else ""
    words = (
        f"Post time is the cause of the decode tail: {tail.gaps:,.0f} of {tail.of:,.0f} gaps between tokens "
        f"({tail.gaps / tail.of:.2%}) were over {tail.threshold:g} s. {tail.posts:,.0f} KV transfers were posted for "
        f"over {tail.threshold:g} s each, and the decode loop stood still meanwhile: with the requests that ran then "
        f"that makes {tail.explained:,.0f} such gaps ({tail.explained / tail.gaps:.0%} of those seen).{mend}"
    )
    evidence = (
        Evidence(f"itl_seconds>{tail.threshold:g}", seconds, tail.gaps / tail.of),
        Evidence(f"nixl_post_seconds>{tail.threshold:g}", seconds, tail.posts),
        Evidence("gaps_explained_ratio", seconds, tail.explained / tail.gaps),
        Evidence("nixl_descriptors_per_transfer", seconds, each),
    )
    return Explanation("nixl_post_time", words, evidence)


def _tail(every: list[Increment], gaps: Buckets, posts: Buckets) -> _Tail | None:
    """The tail over the largest edge of both histograms above which there is one."""
    assert gaps.total is not None  # noqa: S101  asked before
    usual = gaps.total / gaps.count
    shared = [e for e in set(gaps.edges) & set(posts.edges) if FAR_FROM_USUAL * usual <= e < float("inf")]
    for threshold in sorted(shared, reverse=True):
        long_gaps, long_posts = split_at(gaps, threshold).bad, split_at(posts, threshold).bad
        if long_gaps >= max(LEAST_GAPS, LEAST_SHARE * gaps.count) and long_posts >= LEAST_POSTS:
            return _Tail(threshold, long_gaps, gaps.count, long_posts, _explained(every, threshold))
    return None


def _explained(every: list[Increment], threshold: float) -> float:
    """Long posts times the requests running then: the mean of the readings before and after them."""
    last: dict[EngineKey, float] = {}
    explained = 0.0
    for increment in every:
        running = increment.gauges.get(("requests_running", ""), 0.0)
        if posts := increment.histograms.get("nixl_post_seconds"):
            explained += split_at(posts, threshold).bad * (last.get(increment.key, running) + running) / 2
        last[increment.key] = running
    return explained
