"""Periodic jobs: their own phase, never twice at once, and every planned run made or told."""

import asyncio
import time
from itertools import pairwise

from loopback import until

from agent.jobs import Job, Jobs
from probes.clock import ScaledClock, SystemClock

Skips = list[tuple[str, float]]


def jobs(skips: Skips) -> Jobs:
    return Jobs(SystemClock(), lambda name, job, planned: skips.append((name, planned)))


async def test_every_planned_run_is_made_or_told_even_when_the_loop_stands_still_under_a_run() -> None:
    """Runs every 0.1 s that take 0.15 s, and in the middle a stall of 0.7 s: the grid has no hole."""
    skips: Skips = []
    made: list[float] = []
    running = jobs(skips)

    async def run() -> None:
        made.append(running.planned_at_seconds("a"))
        if len(made) == 3:
            time.sleep(0.7)  # noqa: ASYNC251  that is the fault
        await asyncio.sleep(0.15)

    running.replace({"a": Job(0.1, run)})
    running.start()
    await until(lambda: len(made) >= 6, "six runs were made")
    await running.stop()
    seen = sorted([*made, *(planned for _, planned in skips)])
    steps = [round((planned - seen[0]) / 0.1) for planned in seen]
    assert steps == list(range(len(seen)))


async def test_a_plain_function_runs_on_the_event_loop() -> None:
    """In a thread it would read what the loop changes."""
    loops: list[object] = []
    running = jobs([])
    running.replace({"a": Job(0.05, lambda: loops.append(asyncio.get_running_loop()))})
    running.start()
    await until(lambda: len(loops) >= 2, "it ran twice")
    await running.stop()
    assert set(loops) == {asyncio.get_running_loop()}


async def test_a_job_that_fails_runs_again() -> None:
    ran: list[int] = []

    async def fails() -> None:
        ran.append(1)
        raise RuntimeError("boom")

    running = jobs([])
    running.replace({"a": Job(0.05, fails)})
    running.start()
    await until(lambda: len(ran) >= 3, "it ran three times")
    await running.stop()


async def test_what_stays_keeps_its_phase_what_goes_stops_what_comes_starts() -> None:
    ran: dict[str, int] = {"stays": 0, "goes": 0, "comes": 0}

    def count(name: str) -> None:
        ran[name] += 1

    stays, other = Job(0.1, count, ("stays",)), Job(0.05, count, ("goes",))
    running = jobs([])
    running.replace({"stays": stays, "goes": other})
    running.start()
    await until(lambda: ran["goes"] >= 1, "the second ran")
    for number in range(30):
        running.replace({"stays": stays, "comes": Job(0.05 + number / 1e6, count, ("comes",))})
        if number == 0:
            gone = ran["goes"]
        await asyncio.sleep(0.02)
    await until(lambda: ran["stays"] >= 3, "what stays ran on")
    await until(lambda: ran["comes"] >= 1, "what comes ran")
    await running.stop()
    assert ran["goes"] == gone


async def test_stopping_cancels_and_waits() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.05)
            ended.append("cleaned up")

    running = jobs([])
    running.replace({"a": Job(0.05, slow)})
    running.start()
    await until(lambda: bool(running._running), "it runs")
    await running.stop()
    assert ended == ["cleaned up"]


async def test_the_interval_is_in_seconds_of_the_clock() -> None:
    """At 100 times the speed, every 10 s is ten times a second."""
    ran: list[float] = []
    clock = ScaledClock(100, time.time())
    running = Jobs(clock, lambda name, job, planned: None)
    running.replace({"a": Job(10, lambda: ran.append(running.planned_at_seconds("a")))})
    running.start()
    await until(lambda: len(ran) >= 4, "four runs")
    await running.stop()
    assert all(9 < after - before < 11 or after - before > 19 for before, after in pairwise(ran))


async def test_stopping_what_never_started_is_no_error() -> None:
    await jobs([]).stop()
