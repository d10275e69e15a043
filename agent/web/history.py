"""A short memory for the page's sparklines. Nothing else reads it, and it starts empty after a restart."""

from collections import deque
from dataclasses import dataclass, field, fields

from agent.view import SignalsView, View

INTERVAL_SECONDS = 5.0
"""Real time between two points: fine enough to see a story unfold, cheap enough to forget about."""
POINTS = 720
"""One hour of points."""
WINDOW_SECONDS = 60.0
"""Each point is the rolling minute before it."""
ANSWERING = ("up", "stuck")
"""Health of a target whose readings are fresh."""


@dataclass(frozen=True, slots=True)
class Point:
    """All targets together over one minute; None is unknown and leaves a gap in the line.

    A p99 in the histogram's last bucket has a low bound only: it is known to be long, not how long.
    """

    at_seconds: float
    ttft_p99_seconds: float | None
    ttft_p99_low_seconds: float | None
    ttft_p99_high_seconds: float | None
    request_rate_per_second: float | None
    requests_waiting: float | None


@dataclass(slots=True)
class History:
    """The latest points, oldest first."""

    points: deque[Point] = field(default_factory=lambda: deque(maxlen=POINTS))

    def observe(self, view: View) -> None:
        """Add a point for now, unless the agent's clock has not moved since the last one."""
        now_seconds = view.now_seconds()
        if self.points and self.points[-1].at_seconds >= now_seconds:
            return
        targets = view.snapshot().targets
        answering = {target.name for target in targets if target.health in ANSWERING}
        self.points.append(_point(now_seconds, view.signals(WINDOW_SECONDS), answering))

    def as_json(self) -> dict[str, object]:
        """Columns of equal length: `at` and one per figure; unknown is None."""
        names = [column.name for column in fields(Point) if column.name != "at_seconds"]
        columns = {name: [getattr(point, name) for point in self.points] for name in names}
        return {"window_seconds": WINDOW_SECONDS, "at": [point.at_seconds for point in self.points], **columns}


def _point(now_seconds: float, seen: SignalsView, answering: set[str]) -> Point:
    """Who no longer answers has no queue that is known; the requests it served in this minute, it did serve."""
    if not answering:
        return Point(now_seconds, None, None, None, None, None)
    total = seen.total
    queues = [
        one.requests_waiting.last for name, one in seen.targets.items() if name in answering and one.requests_waiting
    ]
    p99 = total.ttft_seconds.p99 if total.ttft_seconds else None
    return Point(
        at_seconds=now_seconds,
        ttft_p99_seconds=p99.value if p99 else None,
        ttft_p99_low_seconds=p99.low if p99 else None,
        ttft_p99_high_seconds=p99.high if p99 else None,
        request_rate_per_second=total.request_rate_per_second,
        requests_waiting=sum(queues) if queues and total.requests_waiting else None,
    )
