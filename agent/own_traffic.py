"""Our own canaries in an engine's counts: found again on its page, so that users' requests can be told without them.

An engine counts a canary as any request, and no label tells it apart. But a canary knows what it was answered, and so
what was counted: one request, so many tokens, and one observation of each latency, within the time that the client may
see and the engine does not (connection, head of the answer, the way back). Where that time spans a bucket's edge, the
observation lies as low as it can in one count and as high as it can in another, and what is left is an interval.
"""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.own import Own, OwnBuckets
from agent.own_shares import Counted, Observed, Share, shares_of
from agent.raw import SignalKey
from agent.stats.buckets import Buckets
from probes.sample import SentRequest

# From the engine's stamp of a token to the client's: decoding, its event loop, the network. At least so much is allowed
# for; where pages show canaries alone, their sums tell the real one, and the longest of the last ones is taken instead.
WAY_BACK_SECONDS = 0.010
KEPT_WAYS = 50
PAGE_SLACK_SECONDS = 0.5  # a page is of some instant of its look, and the look is stamped at its end
FORGOTTEN_AFTER_SECONDS = 60.0  # what no page has shown by then was never counted
KEPT_REQUESTS = 16  # of each target, to tell who was in flight at a reading
LONGEST_HOLD_SECONDS = 15.0  # so long events wait for a canary that may be among them; then it is taken out later


class EnginePlace(Protocol):
    """Which engine of a page, and which model of it."""

    @property
    def engine(self) -> str: ...
    @property
    def model(self) -> str: ...


class EngineStep(Protocol):
    """What is needed of an increment (agent/increment.py)."""

    @property
    def key(self) -> EnginePlace: ...
    @property
    def from_seconds(self) -> float: ...
    @property
    def to_seconds(self) -> float: ...
    @property
    def counters(self) -> Mapping[SignalKey, float]: ...
    @property
    def histograms(self) -> Mapping[str, Buckets]: ...
    @property
    def restarted(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class _Owed:
    """A share of a request that no page has shown yet. `is_late`: the page of its time is counted already, so any later
    one does.
    """

    share: Share
    request: SentRequest
    is_late: bool

    @property
    def after_seconds(self) -> float:
        """No page of before has it."""
        return self.request.sent_at_seconds - PAGE_SLACK_SECONDS

    @property
    def before_seconds(self) -> float:
        """Every page of afterwards has it."""
        return self.share.until_seconds + PAGE_SLACK_SECONDS

    @property
    def forgotten_at_seconds(self) -> float:
        return self.request.ended_at_seconds + FORGOTTEN_AFTER_SECONDS


@dataclass(slots=True)
class _Target:
    flying: list[float] = field(default_factory=list)  # when canaries that still run began
    requests: deque[SentRequest] = field(default_factory=lambda: deque(maxlen=KEPT_REQUESTS))
    owed: list[_Owed] = field(default_factory=list)
    counted_since_seconds: float = -math.inf  # what happened before is in no increment
    counted_until_seconds: float = -math.inf
    ways_back: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_WAYS))

    @property
    def way_back_seconds(self) -> float:
        return max((WAY_BACK_SECONDS, *self.ways_back))


@dataclass(slots=True)
class OwnTraffic:
    """What canaries were answered and no page has shown yet, by target."""

    _targets: defaultdict[str, _Target] = field(default_factory=lambda: defaultdict(_Target))

    def begin(self, target: str, at_seconds: float) -> None:
        """A canary is sent: what the target's pages show from now on waits for its result."""
        self._targets[target].flying.append(at_seconds)

    def end(self, target: str, sent: Iterable[SentRequest]) -> None:
        """It is over, and these are the completions it asked for."""
        known = self._targets[target]
        if known.flying:
            known.flying.pop(0)
        for request in sent:
            known.requests.append(request)
            for share in shares_of(request, known.way_back_seconds):
                is_late = share.at_seconds < known.counted_until_seconds
                if not is_late or share.at_seconds > known.counted_since_seconds:
                    known.owed.append(_Owed(share, request, is_late))

    def knows(self, target: str) -> bool:
        """Whether any canary was sent to it, so that its pages may show some."""
        return target in self._targets

    def forget(self, target: str) -> None:
        """The target is no longer watched."""
        self._targets.pop(target, None)

    def may_be_in(self, target: str, step: EngineStep, now_seconds: float, *, is_last: bool) -> bool:
        """Whether a canary may be counted in an increment that is worth waiting for: one that still runs, or one of
        which the next page will tell whether it was counted before this one (`is_last`) or after it.
        """
        known = self._targets.get(target)
        if known is None or now_seconds - step.to_seconds > LONGEST_HOLD_SECONDS:
            return False
        if any(began < step.to_seconds for began in known.flying):
            return True
        return is_last and any(_is_near(owed, step.to_seconds) for owed in known.owed)

    def find(self, target: str, steps: Sequence[EngineStep], *, are_last: bool = True) -> list[Own | None]:
        """What is ours in these increments of one target, in order of time; None where nothing is.

        `are_last` says that no later increment is known.
        """
        known = self._targets.get(target)
        if known is None or not steps:
            return [None] * len(steps)
        for step in steps:
            known.counted_until_seconds = max(known.counted_until_seconds, step.to_seconds)
            if step.restarted or step.from_seconds == step.to_seconds:
                known.counted_since_seconds = step.from_seconds
        works = [_Work(step) for step in steps]
        ends = [step.to_seconds for step in steps]
        of_model: dict[str, list[_Work]] = defaultdict(list)
        for work in works:
            of_model[work.step.key.model].append(work)
        known.owed = [
            owed
            for owed in known.owed
            if not _is_found(owed, of_model.get(owed.request.model, works), are_last=are_last)
            and ends[-1] < owed.forgotten_at_seconds
        ]
        known.ways_back += (way for work in works if (way := work.way_back_seconds()) is not None)
        return [self._own(known, work, is_alone=ends.count(work.step.to_seconds) == 1) for work in works]

    def _own(self, known: _Target, work: "_Work", *, is_alone: bool) -> Own | None:
        at = work.step.to_seconds
        flying = sum(began < at for began in known.flying) if is_alone else 0
        there = [r for r in known.requests if r.sent_at_seconds < at < r.ended_at_seconds] if is_alone else []
        silent = [r for r in there if r.first_token_at_seconds is None or r.first_token_at_seconds > at]
        own = Own(work.counters, work.found(), float(flying + len(there)), float(flying + len(silent)))
        return own if own.counters or own.histograms or own.in_flight else None


@dataclass(slots=True)
class _Work:
    """One increment, and what of it is taken to be ours."""

    step: EngineStep
    counters: dict[SignalKey, float] = field(default_factory=dict)
    _taken: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    _totals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def count(self, share: Counted) -> bool:
        """Take as much as there is; True when nothing is left to be found."""
        room = self.step.counters.get(share.place, 0.0) - self.counters.get(share.place, 0.0)
        taken = min(room, share.amount)
        if taken > 0:
            self.counters[share.place] = self.counters.get(share.place, 0.0) + taken
            share.amount -= taken
        return share.amount <= 0

    def observe(self, share: Observed, *, widely: bool) -> bool:
        """Take one observation within its interval, or `widely` the nearest one; False where there is none."""
        buckets = self.step.histograms.get(share.signal)
        if buckets is None:
            return False
        lows, highs = self._taken.get(share.signal) or ([0.0] * len(buckets.counts), [0.0] * len(buckets.counts))
        first, last = bisect_left(buckets.edges, share.low), bisect_left(buckets.edges, share.high)
        upwards: Iterable[int] = range(first, last + 1)
        downwards: Iterable[int] = range(last, first - 1, -1)
        if widely:
            upwards = downwards = [*range(last, -1, -1), *range(last + 1, len(buckets.counts))]
        low = next((i for i in upwards if buckets.counts[i] - lows[i] >= 1), None)
        high = next((i for i in downwards if buckets.counts[i] - highs[i] >= 1), None)
        if low is None or high is None:
            return False
        lows[low] += 1
        highs[high] += 1
        self._taken[share.signal] = (lows, highs)
        totals = self._totals.get(share.signal, (0.0, 0.0))
        self._totals[share.signal] = (totals[0] + share.low, totals[1] + share.high)
        return True

    def way_back_seconds(self) -> float | None:
        """How much later than the engine the client saw first tokens, at most; None where users had some as well."""
        buckets, (lows, _) = self.step.histograms.get("ttft_seconds"), self._taken.get("ttft_seconds", ((), ()))
        if buckets is None or buckets.total is None or not lows or sum(lows) != buckets.count:
            return None
        return self._totals["ttft_seconds"][1] - buckets.total

    def found(self) -> dict[str, OwnBuckets]:
        return {
            signal: OwnBuckets(
                Buckets(edges, tuple(lows), self._totals[signal][0]),
                Buckets(edges, tuple(highs), self._totals[signal][1]),
            )
            for signal, (lows, highs) in self._taken.items()
            for edges in [self.step.histograms[signal].edges]
        }


def _is_near(owed: _Owed, seconds: float) -> bool:
    """Whether it may lie on either side of a page of this time."""
    return owed.after_seconds < seconds < owed.before_seconds


def _is_found(owed: _Owed, works: Sequence[_Work], *, are_last: bool) -> bool:
    """Look for it in increments of the model that was asked, or of all where the page knows none of that name, such as
    an adapter's. The rank that was asked for comes first; others, where no later page can show it there.
    """
    asked = [work for work in works if work.step.key.engine == owed.request.rank] if owed.request.rank else []
    if not asked:
        return _is_found_in(works, owed, are_last=are_last)
    if _is_found_in(asked, owed, are_last=are_last):
        return True
    is_still_awaited = are_last and works[-1].step.to_seconds < owed.before_seconds
    return not is_still_awaited and _is_found_in(works, owed, are_last=are_last)


def _is_found_in(works: Sequence[_Work], owed: _Owed, *, are_last: bool) -> bool:
    """Look for it in the increments of its request's life, the first of them first, so that one canary does not take
    what the next one needs; in later ones where those were let go.

    Only where no later page can show it the nearest bucket is taken instead of one within its interval; and at last one
    of the increments beside, of which another canary may have taken its own elsewhere.
    """
    share, ends = owed.share, [work.step.to_seconds for work in works]
    last = bisect_right(ends, owed.forgotten_at_seconds)
    first = bisect_left(ends, owed.after_seconds)
    near = [w for w in works[first:last] if owed.is_late or w.step.from_seconds <= owed.before_seconds]
    if isinstance(share, Counted):
        return any(work.count(share) for work in near)
    if any(work.observe(share, widely=False) for work in near):
        return True
    if not near or (are_last and ends[-1] < owed.before_seconds):
        return False
    beside = works[max(0, first - 1) : first + len(near) + 1]
    return any(work.observe(share, widely=True) for work in (*near, *beside))
