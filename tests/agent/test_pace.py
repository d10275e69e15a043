"""How fast the demo may run, and what is said when that was too fast."""

import pytest

from agent.pace import Lateness, default_speed, machine_speed, outruns


@pytest.mark.parametrize(
    ("machine", "speed"), [(500.0, 20.0), (200.0, 20.0), (199.0, 19.0), (60.0, 6.0), (5.0, 1.0), (0.1, 1.0)]
)
def test_a_slow_machine_plays_slower(machine: float, speed: float) -> None:
    """A tenth of what it could simulate alone, at most 20, in whole numbers, and never slower than life."""
    assert default_speed(machine) == speed


@pytest.mark.parametrize(("speed", "machine"), [(100.0, 1000.0), (20.0, 200.0), (1.0, 1.0)])
def test_a_speed_that_leaves_the_machine_its_time_does_not_outrun_it(speed: float, machine: float) -> None:
    assert not outruns(speed, machine)
    assert outruns(speed + 1, machine)


def test_this_machine_has_a_speed() -> None:
    assert machine_speed() > 0


def test_it_warns_above_ten_seconds_and_again_when_twice_as_bad() -> None:
    watch = Lateness(20.0)
    told = [watch.judge(lag, 0.0) is not None for lag in (10.0, 11.0, 21.0, 23.0, 30.0, 47.0)]
    assert told == [False, True, False, True, False, True]


@pytest.mark.parametrize(("lag", "mend"), [(11.0, "try --speed 10"), (50.0, "try --speed 4"), (500.0, "stop other")])
def test_the_mend_is_the_speed_at_which_the_same_pause_harms_nobody(lag: float, mend: str) -> None:
    """50 s at 20x are 2.5 s of the machine, which are 10 s at 4x."""
    assert mend in (Lateness(20.0).judge(lag, 0.0) or "")


def test_whoever_is_later_is_named() -> None:
    assert "the agent was 30 s" in (Lateness(20.0).judge(20.0, 30.0) or "")
