"""Requests that ended and sent no span: how they were is not known, and that is counted.

The engine's counter says how many ended between two pages, spans say when each ended and how it was. A span is sent
some seconds later, so what is between two pages is compared LATE_SECONDS after the later one. Clocks and pages do not
agree to the millisecond: what one stretch has too many of covers what the stretch before or behind it lacks. A span
that comes after its request was given up makes up for one that is missing next.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

LATE_SECONDS: Final = 30.0  # OTEL_BSP_SCHEDULE_DELAY is 5 s, and an export that failed is tried again for some more
CLOCK_SECONDS: Final = 1.0  # a server's clock may be so much ahead of ours
MOST_AHEAD: Final = 100_000  # spans that no page has counted yet; without pages the oldest are forgotten


@dataclass(slots=True)
class Stretch:
    """What ended in (from_seconds, to_seconds], by the counter and by the spans that have come.

    `early` of the spans are told to have ended at its very beginning: they may belong to the stretch before.
    """

    from_seconds: float
    to_seconds: float
    finished: float = 0.0
    spans: float = 0.0
    early: float = 0.0

    @property
    def lacking(self) -> float:
        """Requests without a span; below 0: spans that the counter does not have here."""
        return self.finished - self.spans

    def take_span(self, ended_at_seconds: float) -> bool:
        """Whether it is one of this stretch."""
        if not self.from_seconds < ended_at_seconds <= self.to_seconds:
            return False
        self.spans += 1
        self.early += ended_at_seconds <= self.from_seconds + CLOCK_SECONDS
        return True


@dataclass(slots=True)
class SpanBalance:
    """The balance of one model of one target; canaries are in both. `missing` is the total since it began."""

    missing: float = 0.0
    _made_up: float = 0.0  # of the missing ones, how many came after all
    _credit: float = 0.0  # of those, how many may still make up for another
    _surplus: float = 0.0  # of the stretch decided last
    _open: list[Stretch] = field(default_factory=list)
    _ahead: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_AHEAD))

    def take_span(self, ended_at_seconds: float) -> None:
        """One more span, of a request that ended then."""
        if not self._open or ended_at_seconds > self._open[-1].to_seconds:
            self._ahead.append(ended_at_seconds)
            return
        if any(stretch.take_span(ended_at_seconds) for stretch in reversed(self._open)):
            return
        if ended_at_seconds <= self._open[0].from_seconds and self._made_up < self.missing:
            self._made_up += 1
            self._credit += 1

    def finish(self, from_seconds: float, to_seconds: float, count: float) -> list[Stretch]:
        """`count` requests ended between two pages. Returns stretches whose `finished` are known to have sent none."""
        if self._open and self._open[-1].to_seconds == to_seconds:
            self._open[-1].finished += count  # another engine of the same page
            return []
        if self._open and self._open[-1].to_seconds > to_seconds:
            self._begin_anew()
            return []
        self._open.append(Stretch(from_seconds, to_seconds, count))
        ahead, self._ahead = self._ahead, deque(maxlen=MOST_AHEAD)
        for ended in ahead:
            self.take_span(ended)
        found = []
        while len(self._open) > 1 and self._open[0].to_seconds <= to_seconds - LATE_SECONDS:
            stretch = self._open.pop(0)
            if missing := self._decide(stretch, self._open[0]):
                found.append(Stretch(stretch.from_seconds, stretch.to_seconds, missing))
        return found

    def _begin_anew(self) -> None:
        """The clock was set back: by which clock spans tell of what ended lately is not known, and none is missed."""
        self._open.clear()
        self._ahead.clear()
        self._surplus = 0.0

    def _decide(self, stretch: Stretch, following: Stretch) -> float:
        """How many requests of this stretch sent no span."""
        lacking = stretch.lacking - self._surplus
        self._surplus = max(0.0, -lacking)
        if lacking <= 0:
            return 0.0
        shifted = min(lacking, max(following.early, -following.lacking))
        following.spans -= shifted
        made_up = min(lacking - shifted, self._credit)
        self._credit -= made_up
        missing = lacking - shifted - made_up
        self.missing += missing
        return missing
