"""How many replicas a group should have: from the forecast and what one carries, with all that keeps it steady."""

import itertools
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, hypot, inf
from typing import Any, Literal

from agent.advice.carries import Carried
from agent.advice.forecast import FLOOR, Forecast

Reason = Literal[
    "grow", "shrink", "no_traffic",  # the count changes
    "within_band", "holding", "pending", "max_replicas", "cannot_be_met",  # it is known, and does not
    "bad_data", "no_model",  # nobody knows
]  # fmt: skip
UNKNOWN: tuple[Reason, ...] = ("bad_data", "no_model")
DRAIN_SECONDS = 180.0  # a standing queue should be gone after so long
LEAST_HOLD_SECONDS = 240.0
DOWN_PART = 0.25  # of the replicas go at once, at least one
DOWN_EVERY_SECONDS = 60.0
REVERSALS_PER_HOUR = 2
LEAST_QUALITY = 0.95  # of the readings that should have come in: below it nothing shrinks
LOST_LEADS = 3.0  # cold starts without an answer: that one does not come


@dataclass(frozen=True, slots=True)
class Group:
    """The replicas of one model and role as they are seen. `pending` never answered yet, `lost` do not come (back)."""

    serving: int
    pending: int = 0
    lost: int = 0
    quality_ratio: float = 1.0

    @property
    def count(self) -> int:
        """All that are there or on their way."""
        return self.serving + self.pending + self.lost


@dataclass(frozen=True, slots=True)
class Wish:
    """The count to have, the range that the evidence allows, and why in a closed word.

    `needed` is what the load asks for, whatever may be advised; None where nobody knows.
    """

    count: int
    low: int
    high: int
    reason: Reason
    needed: int | None = None


@dataclass(slots=True)
class Steadiness:
    """What a group's decisions have to remember: how many were wished for, and how the count went up and down."""

    wishes: deque[tuple[float, int]] = field(default_factory=deque)
    turns: deque[tuple[float, int]] = field(default_factory=deque)
    since_seconds: float | None = None
    shrunk_at_seconds: float = -inf
    seen_count: int | None = None

    def hold_seconds(self, lead_seconds: float, now_seconds: float) -> float:
        """How long fewer must have been enough; doubled for every reversal beyond two within the hour."""
        while self.turns and self.turns[0][0] < now_seconds - 3600:
            self.turns.popleft()
        directions = [direction for _, direction in self.turns]
        reversals = sum(a != b for a, b in itertools.pairwise(directions))
        doubled = min(3, max(0, reversals - REVERSALS_PER_HOUR))
        return max(LEAST_HOLD_SECONDS, 1.5 * lead_seconds) * 2.0**doubled

    def see(self, count: int, now_seconds: float) -> None:
        """How many replicas there are now: what counts is what was done, not what was advised."""
        if self.seen_count is not None and count != self.seen_count:
            self.turns.append((now_seconds, 1 if count > self.seen_count else -1))
            if count < self.seen_count:
                self.shrunk_at_seconds = now_seconds
        self.seen_count = count

    def most_wished(self, wish: int, hold_seconds: float, now_seconds: float) -> int | None:
        """The largest wish of the last while; None where it is not known for so long yet."""
        if self.since_seconds is None:
            self.since_seconds = now_seconds
        self.wishes.append((now_seconds, wish))
        while self.wishes and self.wishes[0][0] < now_seconds - 16 * LEAST_HOLD_SECONDS:
            self.wishes.popleft()
        if now_seconds - self.since_seconds < hold_seconds:
            return None
        return max(count for at, count in self.wishes if at >= now_seconds - hold_seconds)

    def outline(self) -> dict[str, object]:
        """All of it, as plain values."""
        return {
            "wishes": list(self.wishes),
            "turns": list(self.turns),
            "since_seconds": self.since_seconds,
            "shrunk_at_seconds": self.shrunk_at_seconds,
            "seen_count": self.seen_count,
        }

    @classmethod
    def restored(cls, form: Mapping[str, Any]) -> "Steadiness":
        """What `outline` told. Raises ValueError, LookupError or TypeError where it is something else."""
        since, seen = form["since_seconds"], form["seen_count"]
        return cls(
            deque((float(at), int(count)) for at, count in form["wishes"]),
            deque((float(at), int(direction)) for at, direction in form["turns"]),
            None if since is None else float(since),
            float(form["shrunk_at_seconds"]),
            None if seen is None else int(seen),
        )

    def begin_anew(self) -> None:
        """What was seen before something was missing does not count as held."""
        self.since_seconds = None


def wished(
    group: Group,
    forecast: Forecast | None,
    carried: Carried | None,
    waiting: float,
    steadiness: Steadiness,
    bounds: tuple[int, int],
    lead_seconds: float,
    now_seconds: float,
    *,
    is_pressed: bool = False,
) -> Wish:
    """The count to have now. `bounds` are the fewest and the most replicas that may be advised.

    Growth follows the 75 % quantile of the largest load until the end of a cold start (90 % where a budget is pressed)
    and what one replica carries at the pessimistic end; shrinking must leave room for the 90 % quantile (97 %), for as
    long as the hold lasts, with all data there.
    """
    now = group.count
    steadiness.see(now, now_seconds)
    if forecast is None or carried is None or carried.low <= 0:
        steadiness.begin_anew()
        return Wish(now, now, now, _why_unknown(group, forecast, carried))
    queue, (least, most) = waiting / DRAIN_SECONDS, bounds
    loads = (forecast.q90, forecast.q97) if is_pressed else (forecast.q75, forecast.q90)
    up, down = (max(least, ceil(_needed(forecast.q50, rate, queue, carried))) for rate in loads)
    low = max(least, ceil(forecast.q50 / max(carried.high, carried.low)))
    needed = up + group.lost
    up, down, low = (min(most, need) + group.lost for need in (up, down, low))
    enough = None
    if group.quality_ratio < LEAST_QUALITY:
        steadiness.begin_anew()
    else:
        enough = steadiness.most_wished(down, steadiness.hold_seconds(lead_seconds, now_seconds), now_seconds)
    if up > now:
        return replace(_grown(up, now, low, down, most), needed=needed)
    why: Reason | None = "max_replicas" if needed > now else _why_not_fewer(group, enough, steadiness, now_seconds)
    if why is not None or enough is None:
        return Wish(now, min(low, now), max(down, now), why or "holding", needed)
    reason: Reason = "no_traffic" if forecast.q50 < FLOOR else "shrink"
    count = max(enough, now - max(1, int(now * DOWN_PART)))
    return Wish(count, min(low, enough), enough, reason, needed)


def _why_unknown(group: Group, forecast: Forecast | None, carried: Carried | None) -> Reason:
    if carried is not None and forecast is not None:
        return "cannot_be_met"
    return "bad_data" if group.quality_ratio < LEAST_QUALITY else "no_model"


def _needed(middle: float, high: float, queue: float, carried: Carried) -> float:
    """Replicas at the pessimistic end of both predictions together: more load than the median, less carried than said.

    The two have nothing to do with each other, so their parts add up as squares do.
    """
    more_load = high / middle - 1 if middle > 0 else 0.0
    less_carried = max(0.0, carried.value / carried.low - 1)
    base = (middle or high) / (carried.low * (1 + less_carried))
    return base * (1 + hypot(more_load, less_carried)) + queue / carried.low


def _why_not_fewer(group: Group, enough: int | None, steadiness: Steadiness, now_seconds: float) -> Reason | None:
    """The reason to keep what there is; None where fewer will do."""
    if group.quality_ratio < LEAST_QUALITY:
        return "bad_data"
    if enough is None:
        return "holding"
    if enough >= group.count:
        return "within_band"
    if group.pending:
        return "pending"
    return "holding" if now_seconds - steadiness.shrunk_at_seconds < DOWN_EVERY_SECONDS else None


def _grown(up: int, now: int, low: int, down: int, most: int) -> Wish:
    """Not more than double, or four more, at once."""
    count = min(up, max(2 * now, now + 4))
    return Wish(count, min(max(low, now + 1), count), max(count, min(down, most)), "grow")
