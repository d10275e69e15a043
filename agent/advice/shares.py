"""What each replica of one service does of the whole: requests, load, cache hits. Evidence that they are not alike."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import median

from agent.advice.readings import are_all_read
from agent.advice.scene import LEAST_REQUESTS, LOAD_SECONDS, Scene
from agent.model import TargetStatus
from agent.signals.sums import Sums, add_up, together
from agent.windows import Increment

MINUTES = 5
MINUTE_SECONDS = LOAD_SECONDS / MINUTES
LEAST_MINUTES = 4  # of the five: what holds in so many is no accident of arrivals
LEAST_RATIO = 1.5  # facts/recommend.md 4: beyond it the hottest pod is skewed
LEAST_DIFFERENCE = 2.0  # requests: a ratio of small numbers says nothing
SIGMAS = 4.0  # of a count of requests that come by chance


@dataclass(frozen=True, slots=True)
class Share:
    """One replica's last minutes. `loads` are requests running and waiting, the mean of each minute.

    `hit_ratios` are those of each minute; None where nothing was looked up. `hit_ratio` is that of all of them.
    `work_tokens` are prompt tokens that were computed and tokens that were generated; None where pages do not tell.
    """

    name: str
    requests: float
    work_tokens: float | None
    loads: tuple[float, ...]
    hit_ratio: float | None
    hit_ratios: tuple[float | None, ...]
    itl_mean_seconds: float | None

    @property
    def load(self) -> float:
        return sum(self.loads) / len(self.loads)


def shares_of(scene: Scene, group: Sequence[TargetStatus]) -> list[Share] | None:
    """Those of all replicas of the group; None of fewer than two, where one is not read or was not for a part of the
    last minutes, began anew in them, and where there were too few requests for a comparison.
    """
    if len(group) < 2 or not are_all_read(scene, group, (group[0].role,)):
        return None
    found = [_share(scene, status) for status in group]
    known = [share for share in found if share is not None]
    if len(known) < len(group) or sum(share.requests for share in known) < LEAST_REQUESTS * len(group):
        return None
    return known


def hottest(shares: Sequence[Share]) -> tuple[Share, float] | None:
    """The replica with clearly more load than the others' median, minute after minute, and how many times as much.

    None where there is none.
    """
    top = max(shares, key=lambda share: share.load)
    rest = [share for share in shares if share is not top]
    usual = [median(share.loads[minute] for share in rest) for minute in range(MINUTES)]
    hot = [
        load >= LEAST_RATIO * its and load - its >= LEAST_DIFFERENCE for load, its in zip(top.loads, usual, strict=True)
    ]
    if sum(hot) < LEAST_MINUTES:
        return None
    return top, top.load / max(sum(usual) / MINUTES, 0.1)


def gets_more(top: Share, shares: Sequence[Share]) -> bool:
    """Whether more was sent to this replica than to the others, beyond chance: requests, or tokens of work.

    What it begins of a queue from before (it was slow, and is no longer) was not sent to it in these minutes.
    """
    shares = [_without_backlog(share) if share is top else share for share in shares]
    top = next(share for share in shares if share.name == top.name)
    rest = [share for share in shares if share is not top]
    mean = sum(share.requests for share in shares) / len(shares)
    if top.requests >= LEAST_RATIO * median(s.requests for s in rest) and top.requests - mean > SIGMAS * mean**0.5:
        return True
    work = [share.work_tokens for share in rest]
    known = [tokens for tokens in work if tokens is not None]
    if top.work_tokens is None or len(known) < len(work):
        return False
    return top.work_tokens >= LEAST_RATIO * median(known)


def _without_backlog(share: Share) -> Share:
    """Less what its load fell by, from the middle of its first minute to that of its last, and as fast beside."""
    fell = max(0.0, share.loads[0] - share.loads[-1]) * MINUTES / (MINUTES - 1)
    sent = max(0.0, share.requests - fell)
    work = share.work_tokens and share.work_tokens * sent / max(share.requests, 1.0)
    return replace(share, requests=sent, work_tokens=work)


def _share(scene: Scene, status: TargetStatus) -> Share | None:
    increments = scene.increments([status], LOAD_SECONDS)
    if not increments or any(increment.restarted for increment in increments):
        return None
    first = scene.now_seconds - LOAD_SECONDS
    minutes: list[list[Increment]] = [[] for _ in range(MINUTES)]
    for increment in increments:
        minutes[max(0, ceil((increment.to_seconds - first) / MINUTE_SECONDS) - 1)].append(increment)
    parts = [add_up(minute) for minute in minutes]
    sums = together(parts)
    loads = [_load(part) for part in parts]
    known = [load for load in loads if load is not None]
    begun, itl = sums.histogram("ttft_seconds"), sums.histogram("itl_seconds")
    if len(known) < MINUTES or begun is None:
        return None
    return Share(
        status.name,
        begun.count,
        _work(sums),
        tuple(known),
        hit_ratio_of(sums),
        tuple(hit_ratio_of(part) for part in parts),
        itl.total / itl.count if itl is not None and itl.total is not None and itl.count else None,
    )


def hit_ratio_of(sums: Sums) -> float | None:
    """The part of the looked-up prompt tokens that the replica's own cache had; None where none were looked up."""
    asked, found = sums.counter("prefix_cache_queried_tokens_total"), sums.counter("prefix_cache_hit_tokens_total")
    return found / asked if asked and found is not None else None


def _load(sums: Sums) -> float | None:
    running, waiting = sums.level("requests_running"), sums.level("requests_waiting")
    return None if running is None or waiting is None else running.mean + waiting.mean


def _work(sums: Sums) -> float | None:
    computed, generated = (
        sums.counter("prompt_tokens_by_source_total", "local_compute"),
        sums.counter("generation_tokens_total"),
    )
    return None if computed is None or generated is None else computed + generated
