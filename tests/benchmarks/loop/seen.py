"""What autoscalers of today see of the fleet: gauges of ready replicas, and rates over the last minute."""

from collections import deque
from dataclasses import dataclass, field

from loop.world import World


@dataclass(frozen=True, slots=True)
class Look:
    """One look: per ready replica the requests waiting and running and the KV usage; arrivals so far."""

    at_seconds: float
    waiting: tuple[int, ...]
    running: tuple[int, ...]
    kv_usage: tuple[float, ...]
    prefilling: tuple[int, ...]
    starting: int
    arrived: int
    prompt_tokens: int
    output_tokens: int


@dataclass(slots=True)
class Looks:
    """The looks of the last ten minutes, newest last."""

    kept: deque[Look] = field(default_factory=lambda: deque(maxlen=121))

    def take(self, world: World, now_seconds: float) -> Look:
        """Look now."""
        ready = world.fleet.ready
        for replica in ready:
            replica.engine.advance(now_seconds)
        engines = [replica.engine for replica in ready]
        look = Look(
            now_seconds,
            tuple(engine.requests_waiting for engine in engines),
            tuple(engine.requests_running for engine in engines),
            tuple(engine.pool.usage_ratio for engine in engines),
            tuple(sum(s.ask.prompt_tokens for s in engine.scheduler.waiting) for engine in engines),
            sum(replica.phase == "starting" for replica in world.fleet.replicas),
            world.arrived,
            world.prompt_tokens,
            world.output_tokens,
        )
        self.kept.append(look)
        return look

    def over(self, seconds: float) -> list[Look]:
        """The looks of the last so many seconds."""
        since = self.kept[-1].at_seconds - seconds
        return [look for look in self.kept if look.at_seconds > since]

    def rate(self, seconds: float) -> tuple[float, float, float]:
        """Requests per second that arrived over the last so many seconds, and their mean input and output tokens."""
        since = self.kept[-1].at_seconds - seconds
        first = next((look for look in self.kept if look.at_seconds >= since), self.kept[0])
        last = self.kept[-1]
        count, span = last.arrived - first.arrived, last.at_seconds - first.at_seconds
        if count <= 0 or span <= 0:
            return 0.0, 1.0, 1.0
        return (
            count / span,
            max(1.0, (last.prompt_tokens - first.prompt_tokens) / count),
            max(1.0, (last.output_tokens - first.output_tokens) / count),
        )


@dataclass(slots=True)
class Stabilised:
    """Kubernetes' HPA around a desired count: tolerance, window of the largest (or, going up, least) wish, and limits.

    Defaults of autoscaling/v2: 10 % tolerance, down 300 s, up 0 s, at most double or four more per 15 s going up.
    """

    down_seconds: float = 300.0
    up_seconds: float = 0.0
    wishes: deque[tuple[float, int]] = field(default_factory=deque)

    def settle(self, wish: int, current: int, now_seconds: float) -> int:
        self.wishes.append((now_seconds, wish))
        while self.wishes[0][0] < now_seconds - max(self.down_seconds, self.up_seconds):
            self.wishes.popleft()
        largest = max(w for at, w in self.wishes if at >= now_seconds - self.down_seconds)
        least = min(w for at, w in self.wishes if at >= now_seconds - self.up_seconds)
        if least > current:
            return min(least, max(2 * current, current + 4))
        return min(current, largest)
