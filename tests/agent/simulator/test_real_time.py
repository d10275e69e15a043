"""The fleet in real time: how far it was behind its clock is known, and forgotten after a minute."""

import pytest

from agent.simulator.real_time import RealTime
from agent.simulator.scenarios import SCENARIOS

START = 1_000.0


class SetClock:
    """Shows the time it is set to."""

    def __init__(self) -> None:
        self.now = START

    def now_seconds(self) -> float:
        return self.now

    def monotonic_seconds(self) -> float:
        return self.now

    def real_seconds(self, seconds: float) -> float:
        return seconds

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_the_worst_lag_of_the_last_minute_is_told() -> None:
    """It looks at 0.4 s (no lag worth a word), then 30 s later, then 5 s later; 61 s after that only smaller ones."""
    clock = SetClock()
    real_time = RealTime(SCENARIOS["demo"].stage(0, START).fleet, clock)
    told = []
    for pause in (0.4, 30.0, 5.0, *[2.0] * 31):
        clock.now += pause
        real_time.catch_up()
        told.append(real_time.lag_seconds())
    assert told[:3] == pytest.approx([0.0, 30.0, 30.0])
    assert told[-1] == pytest.approx(2.0)
    assert real_time.fleet.now_seconds == clock.now
