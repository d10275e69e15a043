"""What the HTTP layer in front of an engine counts: requests by status, and their durations."""

from agent.simulator.histogram import Histogram

COARSE_EDGES = (0.1, 0.5, 1.0)  # vLLM 0.32 page: http_request_duration_seconds
FINE_EDGES = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5),
    *(3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0, 60.0),
)  # same page: http_request_duration_highr_seconds


class HttpCounts:
    """Counts per path and status class; `created` holds when each series appeared."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str], int] = {}
        self.durations: dict[str, Histogram] = {}
        self.all_durations = Histogram(FINE_EDGES)
        self.created: dict[str, float] = {}

    def count(self, path: str, status: int, duration_seconds: float, now_seconds: float) -> None:
        """One request is over. A stream's duration is the whole stream, and its status the one it began with."""
        key = (path, f"{status // 100}xx")
        self.requests[key] = self.requests.get(key, 0) + 1
        self.durations.setdefault(path, Histogram(COARSE_EDGES)).observe(duration_seconds)
        self.all_durations.observe(duration_seconds)
        self.created.setdefault(path, now_seconds)
