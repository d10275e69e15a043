"""What posting KV transfers does to a decode engine: its loop stands still, and every sequence waits."""

from dataclasses import dataclass

from agent.advice.step_model import StepModel
from agent.advice.traffic import Traffic
from agent.signals.sums import Sums

LEAST_POSTS = 20.0


@dataclass(frozen=True, slots=True)
class Stall:
    """What posting does to one group's decode engines, over the last minutes.

    `decode_seconds` is a decode step at the batch seen, `long_gaps` the gaps longer than that and half a post.
    `explained_ratio` is posts times sequences that decoded, over the long gaps: 1 means that posts are all of them.
    """

    posts: float
    post_seconds: float
    transfer_seconds: float
    decode_seconds: float
    gaps: float
    long_gaps: float
    explained_ratio: float


def measured_stall(sums: Sums, traffic: Traffic, steps: StepModel, replicas: int) -> Stall | None:
    """The stall of these sums; None where there are too few posts, or the pages do not tell."""
    posts, gaps, transfers = (
        sums.histogram(name) for name in ("nixl_post_seconds", "itl_seconds", "nixl_transfer_seconds")
    )
    counted, usage = sums.histogram("step_tokens"), sums.level("kv_usage_ratio", as_mean=True)
    capacity = sums.level("kv_capacity_tokens", as_mean=True)
    if posts is None or posts.total is None or posts.count < LEAST_POSTS or gaps is None or counted is None:
        return None
    if usage is None or capacity is None or not counted.count or traffic.mean_running is None:
        return None
    sequences = gaps.count / counted.count  # those that decoded, a step
    running = max(1.0, traffic.mean_running / replicas)
    kv_tokens = usage.mean * capacity.mean * sequences / running
    decode, post = steps.seconds(0.0, sequences, kv_tokens), posts.total / posts.count
    edges = (0.0, *gaps.edges)
    long = sum(count for edge, count in zip(edges, gaps.counts, strict=False) if edge >= decode + post / 2)
    transfer = transfers.total / transfers.count if transfers and transfers.total and transfers.count else post
    explained = posts.count * sequences / long if long else 0.0
    return Stall(posts.count, post, transfer, decode, gaps.count, float(long), explained)
