"""A world in virtual time for the conformance cases: engines that do as they are told, one SLO, `tick()`."""

from fake_engine import FakeEngine

from agent.burn_windows import standard_pairs
from agent.model import BurnPair, Slo, SloStatus
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.tick import Memory, tick
from probes.sample import ProbeResult

T0, MINUTE, HOUR, DAY = 1_800_000_000.0, 60.0, 3_600.0, 86_400.0
MONTH = 30 * DAY
PAIRS = standard_pairs(MONTH)


class Story:
    """One engine and an SLO on its TPOT; readings come when they are asked for, each with a tick."""

    def __init__(
        self, objective: float = 0.999, began: float = T0 - MONTH, pairs: tuple[BurnPair, ...] = PAIRS, **more: object
    ) -> None:
        slo = Slo("s", "chat", "tpot", "engine", objective, MONTH, pairs, threshold_seconds=0.05, **more)  # type: ignore[arg-type]
        self.plan = Plan((slo,), {"vllm-0": TargetFacts("m", "aggregated", None)})
        self.memory, self.engine, self.now = Memory(), FakeEngine(started_at_seconds=began - 1), began
        self.memory.windows.take(self.engine.reading(began))

    def serve(self, seconds: float, per_second: float, bad_ratio: float = 0.0) -> "Story":
        """So much time with so many requests, all in one reading."""
        self.happen(per_second * seconds * (1 - bad_ratio), per_second * seconds * bad_ratio)
        return self.look(self.now + seconds)

    def happen(self, good: float, bad: float = 0.0) -> None:
        """Requests that the next reading will show."""
        self.engine.observe("tpot_seconds", 0.02, good)
        self.engine.observe("tpot_seconds", 0.2, bad)

    def look(self, at: float) -> "Story":
        self.now = at
        self.memory.windows.take(self.engine.reading(at))
        return self

    def status(self, at: float | None = None) -> SloStatus:
        """The SLO after a tick, at the last reading where no other moment is named."""
        return tick(self.plan, self.memory, self.now if at is None else at).snapshot.slos[0]

    def spent_percent(self) -> float | None:
        left = self.status().budget.remaining_ratio
        return None if left is None else 100 * (1 - left)

    def firing(self) -> set[str]:
        """Burn alerts that fire, as severity/tier."""
        return {
            f"{dict(labels)['severity']}/{dict(labels)['tier']}"
            for labels, alert in self.memory.alerts.firing.items()
            if alert.name == "SLOBurnRate"
        }


class Canaries:
    """An SLO on canaries, each of them one event."""

    def __init__(self, objective: float, pairs: tuple[BurnPair, ...], at_least: int, began: float) -> None:
        slo = Slo("s", "chat", "availability", "canary", objective, MONTH, pairs, min_bad_events=at_least)
        self.plan, self.memory = Plan((slo,), {"vllm-0": TargetFacts("m", "aggregated", None)}), Memory()
        self.send(began, is_ok=True)

    def send(self, at: float, *, is_ok: bool) -> None:
        outcome = "ok" if is_ok else "server_error"
        self.memory.windows.take_probe(ProbeResult("vllm-0", "chat", outcome, at, at, "m", e2e_seconds=0.1))

    def burning(self, at: float) -> tuple[bool, ...]:
        return tuple(burn.is_burning for burn in tick(self.plan, self.memory, at).snapshot.slos[0].burns)

    def fires(self, at: float) -> bool:
        tick(self.plan, self.memory, at)
        return any(alert.name == "SLOBurnRate" for alert in self.memory.alerts.firing.values())
