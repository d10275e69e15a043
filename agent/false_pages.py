"""How often an SLO pages for nothing, told before it does: by chance at a given traffic, and as a history went.

By chance: a service that spends exactly its budget, errors independent of each other, a fixed seed. Requests of one
batch fail together, so real pages may be more; a history holds that, and is resampled by blocks so that it stays.
"""

import math
import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from agent.model import BurnPair, Slo

MONTH_SECONDS, HOUR_SECONDS, MINUTE_SECONDS = 2_592_000.0, 3_600.0, 60.0
MONTHS = 100
NONE_SEEN = 3.0  # of which none came, a Poisson count has at most this mean, with 95 % confidence
MOST_EVENTS = 200_000  # that are drawn: a second or less
NEVER_PER_MONTH = 0.01
BLOCK_MINUTES = 60
FEWEST_BLOCKS = 3  # of the longest kind that the history can give; fewer are no sample
Minute = tuple[float, float]  # (bad, all)


def false_pages_a_month(slo: Slo, events_an_hour: float) -> float | None:
    """Pages a month of a service that spends exactly its budget; 0 stands for fewer than `fewest_told_a_month`.

    None without page pairs and without traffic. Two pairs that fire at once are two pages, as they are two alerts.
    """
    pairs = [pair for pair in slo.pairs if pair.severity == "page"]
    if not pairs or events_an_hour <= 0:
        return None
    return sum(_by_chance(slo, pair, events_an_hour) for pair in pairs)


def fewest_told_a_month(slo: Slo, events_an_hour: float) -> float:
    """What `false_pages_a_month` can tell from nothing: one in a hundred months, or what its dice can show."""
    pairs = [pair for pair in slo.pairs if pair.severity == "page"]
    is_thrown = not all(_never(slo, pair, events_an_hour) for pair in pairs)
    return NONE_SEEN / _months(events_an_hour) if is_thrown else NEVER_PER_MONTH


def pages_a_month_like(slo: Slo, minutes: Sequence[Minute], months: int = 6) -> float | None:
    """Pages a month when months go as these minutes did, in blocks of an hour (of a shorter history a tenth of it).

    None where the history has fewer than three blocks, or the SLO no page pairs.
    """
    pairs = [pair for pair in slo.pairs if pair.severity == "page"]
    block = block_minutes(len(minutes))
    if not pairs or len(minutes) < FEWEST_BLOCKS * block:
        return None
    draw = random.Random(1)  # noqa: S311  a fixed seed: the same question has the same answer
    starts = range(len(minutes) - block + 1)
    needed = int(months * MONTH_SECONDS / MINUTE_SECONDS)
    drawn: list[Minute] = []
    while len(drawn) < needed:
        start = draw.choice(starts)
        drawn += minutes[start : start + block]
    return sum(_begun(slo, pair, _timed(drawn[:needed])) for pair in pairs) / months


def block_minutes(history_minutes: int) -> int:
    """How long the blocks are that a history is cut into."""
    return max(1, min(BLOCK_MINUTES, history_minutes // 10))


def _by_chance(slo: Slo, pair: BurnPair, events_an_hour: float) -> float:
    if _never(slo, pair, events_an_hour):
        return 0.0
    months = _months(events_an_hour)
    return _begun(slo, pair, _drawn(slo.budget_ratio, events_an_hour, months * MONTH_SECONDS)) / months


def _months(events_an_hour: float) -> float:
    return min(float(MONTHS), MOST_EVENTS / (events_an_hour * MONTH_SECONDS / HOUR_SECONDS))


def _never(slo: Slo, pair: BurnPair, events_an_hour: float) -> bool:
    expected = events_an_hour * slo.budget_ratio * pair.long_seconds / HOUR_SECONDS
    # Chernoff: a Poisson count of mean m reaches F m with a probability of at most exp(-m (F ln F - F + 1)).
    tail = math.exp(-expected * (pair.factor * math.log(pair.factor) - pair.factor + 1)) if pair.factor > 1 else 1.0
    return tail * MONTH_SECONDS / pair.short_seconds < NEVER_PER_MONTH


def _drawn(bad_ratio: float, events_an_hour: float, seconds: float) -> Iterator[tuple[float, Minute]]:
    """(when, (bad, all)) of events that know nothing of each other."""
    draw, at = random.Random(1), 0.0  # noqa: S311  a fixed seed: the same question has the same answer
    while at < seconds:
        at += draw.expovariate(events_an_hour / HOUR_SECONDS)
        yield at, (float(draw.random() < bad_ratio), 1.0)


def _begun(slo: Slo, pair: BurnPair, events: Iterable[tuple[float, Minute]]) -> int:
    """How often the pair begins to fire."""
    short, long = _Window(pair.short_seconds), _Window(pair.long_seconds)
    threshold, calm = pair.factor * slo.budget_ratio, slo.calm_windows * pair.short_seconds
    began, is_on, last, has_returned = 0, False, -math.inf, False
    for at, counts in events:
        in_short, in_long = short.take(at, counts), long.take(at, counts)
        burns = min(_ratio(in_short), _ratio(in_long)) > threshold and in_long[0] >= slo.min_bad_events
        if burns and not is_on:
            began, is_on, has_returned = began + 1, True, at - last <= pair.long_seconds
        if burns:
            last = at
        elif is_on and at - last >= (calm if has_returned else 0.0):
            is_on = False
    return began


def _timed(minutes: Iterable[Minute]) -> Iterator[tuple[float, Minute]]:
    yield from ((place * MINUTE_SECONDS, counts) for place, counts in enumerate(minutes))


def _ratio(counts: Minute) -> float:
    return counts[0] / counts[1] if counts[1] > 0 else 0.0


class _Window:
    """The sum of what came in the last so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._kept: deque[tuple[float, Minute]] = deque()
        self._seconds = seconds
        self._bad = self._all = 0.0

    def take(self, at: float, counts: Minute) -> Minute:
        kept = self._kept
        kept.append((at, counts))
        self._bad, self._all = self._bad + counts[0], self._all + counts[1]
        while kept[0][0] <= at - self._seconds:
            _, (bad, every) = kept.popleft()
            self._bad, self._all = self._bad - bad, self._all - every
        return self._bad, self._all
