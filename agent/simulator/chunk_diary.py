"""What LMCache's server tells of its chunks: how long they lay, when they came again, and when after they were gone."""

from dataclasses import dataclass, field

from agent.simulator.histogram import Histogram

EDGES = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0)
LONGEST_WAIT_SECONDS = 300.0  # LMCache 0.5.6, max_evict_reuse_wait: then an evicted chunk counts as one never missed


@dataclass(slots=True)
class ChunkDiary:
    """Births and touches of chunks. As LMCache does it, but every chunk is followed, not one in a hundred."""

    lifetime_seconds: Histogram = field(default_factory=lambda: Histogram(EDGES))
    idle_before_evict_seconds: Histogram = field(default_factory=lambda: Histogram(EDGES))
    reuse_gap_seconds: Histogram = field(default_factory=lambda: Histogram(EDGES))
    evict_reuse_gap_seconds: Histogram = field(default_factory=lambda: Histogram(EDGES[:7]))
    _lives: dict[int, tuple[float, float]] = field(default_factory=dict)
    _gone: dict[int, float] = field(default_factory=dict)

    def written(self, chunk: int, now_seconds: float) -> None:
        """It is new here, or here again."""
        gone_at = self._gone.pop(chunk, None)
        if gone_at is not None:
            self.evict_reuse_gap_seconds.observe(min(now_seconds - gone_at, LONGEST_WAIT_SECONDS))
        self._lives[chunk] = now_seconds, now_seconds
        self._give_up(now_seconds)

    def touched(self, chunk: int, now_seconds: float) -> None:
        birth, last = self._lives[chunk]
        self.reuse_gap_seconds.observe(now_seconds - last)
        self._lives[chunk] = birth, now_seconds

    def evicted(self, chunk: int, now_seconds: float) -> None:
        birth, last = self._lives.pop(chunk)
        self.lifetime_seconds.observe(now_seconds - birth)
        self.idle_before_evict_seconds.observe(now_seconds - last)
        self._gone[chunk] = now_seconds

    def _give_up(self, now_seconds: float) -> None:
        """Nobody has come for them: they are in the order in which they went."""
        while self._gone and now_seconds - next(iter(self._gone.values())) >= LONGEST_WAIT_SECONDS:
            del self._gone[next(iter(self._gone))]
            self.evict_reuse_gap_seconds.observe(LONGEST_WAIT_SECONDS)
