"""Detection and reset of every standard pair, on `tick()` in virtual time.

1,000 requests/s, all good for four days; from `T0` on the share e of them is bad, until recovery. With budget b,
factor F and windows L and S an alert fires after L F b / e (if e > F b, else never), and it is resolved S (1 - F b / e)
after recovery. Both are rounded up to the tick of 5 s. Source: SRE Workbook, chapter 5; facts/slo.md, table A.
"""

import math

import pytest
from fake_engine import FakeEngine

from agent.model import BurnPair, Slo
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.tick import Memory, tick

T0, TICK, RATE = 1_800_000_000.0, 5.0, 1000.0
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
PAIRS = (
    BurnPair("page", "fast", 300.0, HOUR, 14.4),
    BurnPair("page", "slow", 1800.0, 6 * HOUR, 6.0),
    BurnPair("ticket", "slow", 2 * HOUR, DAY, 3.0),
    BurnPair("ticket", "trend", 6 * HOUR, 3 * DAY, 1.0),
)
s, m, h = 1.0, MINUTE, HOUR
NEVER = (math.inf, math.inf)
TABLE = {  # (objective, bad share): (detection, reset) for each pair
    (0.999, 1.00): ((51.84, 295.68), (129.6, 1789.2), (259.2, 7178.4), (259.2, 21578.4)),
    (0.999, 0.50): ((103.68, 291.36), (4.32 * m, 29.64 * m), (8.64 * m, 119.28 * m), (8.64 * m, 359.28 * m)),
    (0.999, 0.10): ((8.64 * m, 4.28 * m), (21.6 * m, 28.2 * m), (43.2 * m, 116.4 * m), (43.2 * m, 5.94 * h)),
    (0.999, 0.05): ((17.28 * m, 3.56 * m), (43.2 * m, 26.4 * m), (86.4 * m, 112.8 * m), (86.4 * m, 5.88 * h)),
    (0.999, 0.02): ((43.2 * m, 84.0), (108 * m, 21 * m), (3.6 * h, 102 * m), (3.6 * h, 5.7 * h)),
    (0.99, 1.00): ((8.64 * m, 256.8), (21.6 * m, 28.2 * m), (43.2 * m, 116.4 * m), (43.2 * m, 5.94 * h)),
    (0.99, 0.50): ((17.28 * m, 3.56 * m), (43.2 * m, 26.4 * m), (86.4 * m, 112.8 * m), (86.4 * m, 5.88 * h)),
    (0.99, 0.10): (NEVER, (3.6 * h, 12 * m), (7.2 * h, 84 * m), (7.2 * h, 5.4 * h)),
    (0.99, 0.05): (NEVER, NEVER, (14.4 * h, 48 * m), (14.4 * h, 4.8 * h)),
    (0.99, 0.02): (NEVER, NEVER, NEVER, (36 * h, 3 * h)),
    (0.95, 1.00): ((43.2 * m, 84.0), (108 * m, 21 * m), (3.6 * h, 102 * m), (3.6 * h, 5.7 * h)),
    (0.95, 0.50): (NEVER, (3.6 * h, 12 * m), (7.2 * h, 84 * m), (7.2 * h, 5.4 * h)),
    (0.95, 0.10): (NEVER, NEVER, NEVER, (36 * h, 3 * h)),
    (0.95, 0.05): (NEVER, NEVER, NEVER, NEVER),  # burn = 1 exactly, and the comparison is strict
}
ROWS = [
    (objective, share, pair, detection, reset)
    for (objective, share), cells in TABLE.items()
    for pair, (detection, reset) in zip(PAIRS, cells, strict=True)
]


class World:
    """One engine and one SLO; time goes on by readings, each with a tick at the same moment."""

    def __init__(self, objective: float, pairs: tuple[BurnPair, ...]) -> None:
        slo = Slo("tpot", "chat", "tpot", "engine", objective, 30 * DAY, pairs, threshold_seconds=0.05)
        self.plan = Plan(slos=(slo,), targets={"vllm-0": TargetFacts("m", "aggregated", None)})
        self.memory, self.engine, self.now = Memory(), FakeEngine(), T0 - 4 * DAY
        self.memory.windows.take(self.engine.reading(self.now))
        self.go(T0, 0.0)

    def go(self, to: float, bad_share: float) -> bool:
        """Steady traffic up to `to`, all of one reading; whether an SLO alert fires after it."""
        if to > self.now:
            count = RATE * (to - self.now)
            self.engine.observe("tpot_seconds", 0.02, count * (1 - bad_share))
            self.engine.observe("tpot_seconds", 0.2, count * bad_share)
            self.now = to
            self.memory.windows.take(self.engine.reading(to))
        tick(self.plan, self.memory, to)
        return any(alert.name == "SLOBurnRate" for alert in self.memory.alerts.firing.values())


def rounded_up(seconds: float) -> float:
    """The first tick strictly after, or at, so many seconds; floats of the table's own sums are forgiven."""
    return math.ceil(round(seconds, 6) / TICK) * TICK


@pytest.mark.parametrize(
    ("objective", "share", "pair", "detection", "reset"),
    ROWS,
    ids=[f"{row[0]}-{row[1]:.0%}-{row[2].severity}/{row[2].tier}" for row in ROWS],
)
def test_detection_and_reset(objective: float, share: float, pair: BurnPair, detection: float, reset: float) -> None:
    world = World(objective, (pair,))
    if math.isinf(detection):
        assert not any(world.go(T0 + pair.long_seconds * part / 24, share) for part in range(1, 37))
        return
    fires = rounded_up(detection)
    if fires == detection:
        fires += TICK  # equality does not fire
    before = fires - TICK
    assert not any(world.go(T0 + math.floor(before * part / 8 / TICK) * TICK, share) for part in range(1, 9))
    assert world.go(T0 + fires, share)

    over = T0 + math.ceil((fires + pair.short_seconds) / TICK) * TICK
    assert all(world.go(world.now + (over - world.now) * part / 4, share) for part in range(1, 5))
    ends = rounded_up(reset)
    burning = [over + math.floor((ends - TICK) * part / 8 / TICK) * TICK for part in range(1, 9)]
    assert all(world.go(at, 0.0) for at in burning)
    assert not world.go(over + ends, 0.0)


@pytest.mark.parametrize(
    ("objective", "share", "seconds", "tick_seconds", "fast", "slow"),
    [
        (0.999, 1.0, 600, 15, (60, 885), (135, 2385)),
        (0.99, 1.0, 1800, 15, (525, 2055), (1305, 3480)),
        (0.99, 0.5, 3600, 15, (1050, 3810), (2595, 5175)),
        (0.95, 1.0, 7200, 60, (2640, 7260), (6540, 8400)),  # 6480 is equality and does not fire
    ],
)
def test_first_and_last_firing_evaluation_equal_those_of_promtool(
    objective: float, share: float, seconds: float, tick_seconds: float, fast: tuple[int, int], slow: tuple[int, int]
) -> None:
    """Figures of real Prometheus rules run by promtool (facts/slo.md, 7.A): every evaluation on the grid."""
    world = World(objective, PAIRS[:2])
    fired: dict[str, list[float]] = {"fast": [], "slow": []}
    for step in range(1, int(9000 / tick_seconds)):
        at = step * tick_seconds
        world.go(T0 + at, share if at <= seconds else 0.0)
        for alert in world.memory.alerts.firing.values():
            fired[dict(alert.labels)["tier"]].append(at)
    assert {tier: (at[0], at[-1]) for tier, at in fired.items()} == {"fast": fast, "slow": slow}
