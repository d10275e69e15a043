"""Clocks: the machine's own, and one that runs faster, in step between processes."""

import time

import pytest

from probes.clock import ScaledClock, SystemClock


def test_the_machines_clock_is_the_machines() -> None:
    clock = SystemClock()
    assert clock.now_seconds() == pytest.approx(time.time(), abs=1)
    assert clock.monotonic_seconds() <= clock.monotonic_seconds()
    assert clock.real_seconds(3) == 3


def test_a_scaled_clock_begins_at_its_epoch_and_runs_at_its_speed() -> None:
    """Begun 2 s ago at 50 times the speed: 100 s have passed."""
    epoch = time.time() - 2
    clock = ScaledClock(50, epoch)
    assert clock.now_seconds() - epoch == pytest.approx(100, abs=25)
    assert clock.real_seconds(10) == 0.2
    before, began = clock.now_seconds(), time.perf_counter()
    time.sleep(0.05)
    passed, real = clock.now_seconds() - before, time.perf_counter() - began
    assert passed == pytest.approx(50 * real, rel=0.2)


def test_two_processes_with_one_epoch_and_speed_agree() -> None:
    """Each has its own perf_counter; what joins them is the machine's time."""
    epoch = time.time()
    first = ScaledClock(20, epoch)
    time.sleep(0.05)
    second = ScaledClock(20, epoch)
    assert first.now_seconds() == pytest.approx(second.now_seconds(), abs=0.1)


def test_it_never_goes_back() -> None:
    clock = ScaledClock(100, time.time())
    stamps = [clock.now_seconds() for _ in range(1000)]
    assert stamps == sorted(stamps)


async def test_sleep_is_in_its_own_seconds() -> None:
    clock, began = ScaledClock(100, time.time()), time.perf_counter()
    await clock.sleep(10)
    assert 0.08 < time.perf_counter() - began < 5
