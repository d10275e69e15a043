"""The probing process: one result for every task, whatever becomes of the process."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from nasty_server import GOOD, HANG, NastyServer, nasty_server

from probes.canary.outcomes import is_bad
from probes.canary.process import CanaryProcess
from probes.canary.task import ProbeTask
from probes.clock import ScaledClock, SystemClock

TASK = ProbeTask(target="t", url="", model="m", token="tok-secret", max_tokens=4, planned_at_seconds=7.0)


@pytest.fixture
async def canaries() -> AsyncIterator[CanaryProcess]:
    process = CanaryProcess(SystemClock())
    await process.start()
    yield process
    await process.stop()


async def in_flight(server: NastyServer) -> None:
    """Until the probing process has sent its request."""
    while not server.requests:  # noqa: ASYNC110 - another process makes it happen
        await asyncio.sleep(0.005)


def process_id(canaries: CanaryProcess) -> int:
    assert canaries._process is not None
    return canaries._process.pid


async def test_a_result_comes_back_whole(canaries: CanaryProcess) -> None:
    async with nasty_server(GOOD) as server:
        result = await canaries.probe(replace(TASK, url=f"http://127.0.0.1:{server.port}"))
    assert result.is_ok
    assert (result.target, result.planned_at_seconds, result.output_tokens) == ("t", 7.0, 4)
    assert isinstance(result.itl_gaps_seconds, tuple)
    assert (result.phases["connect"] or 0.0) > 0.0


async def test_never_two_at_once_on_one_target(canaries: CanaryProcess) -> None:
    """The second ask is missed, with its planned time; another target is not held up; afterwards the first is free."""
    async with nasty_server((0.3, *GOOD)) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}")
        running = asyncio.create_task(canaries.probe(task))
        await in_flight(server)
        second = await canaries.probe(replace(task, planned_at_seconds=8.0))
        other = await canaries.probe(replace(task, target="other"))
        assert (second.outcome, second.planned_at_seconds) == ("missed", 8.0)
        assert is_bad(second.outcome, has_succeeded=True) is None
        assert other.is_ok
        assert (await running).is_ok
        assert (await canaries.probe(task)).is_ok


async def test_a_process_that_dies_is_started_again(canaries: CanaryProcess) -> None:
    """What was in flight is cancelled, with the reason; the next probe finds a new process."""
    async with nasty_server((HANG,), GOOD) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}")
        running = asyncio.create_task(canaries.probe(task))
        await in_flight(server)
        os.kill(process_id(canaries), signal.SIGKILL)
        cut_off = await running
        assert cut_off.outcome == "cancelled"
        assert cut_off.detail == "the probe process ended with exit code -9"
        assert (await canaries.probe(task)).is_ok
    assert canaries.restarts_total == 1


async def test_stopping_cancels_what_is_in_flight(canaries: CanaryProcess) -> None:
    async with nasty_server((HANG,)) as server:
        running = asyncio.create_task(canaries.probe(replace(TASK, url=f"http://127.0.0.1:{server.port}")))
        await in_flight(server)
        await canaries.stop()
        assert (await running).outcome == "cancelled"
    assert (await canaries.probe(TASK)).outcome == "cancelled"


async def test_an_interrupt_of_the_terminal_does_not_end_it(canaries: CanaryProcess) -> None:
    async with nasty_server(GOOD) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}")
        assert (await canaries.probe(task)).is_ok
        os.kill(process_id(canaries), signal.SIGINT)
        assert (await canaries.probe(task)).is_ok
    assert canaries.restarts_total == 0


async def test_the_token_is_no_argument_of_the_process(canaries: CanaryProcess) -> None:
    async with nasty_server(GOOD) as server:
        await canaries.probe(replace(TASK, url=f"http://127.0.0.1:{server.port}"))
        with open(f"/proc/{process_id(canaries)}/cmdline", "rb") as arguments:  # noqa: ASYNC230, PTH123 - a line
            assert b"tok-secret" not in arguments.read()
    assert "tok-secret" not in repr(TASK)


async def test_the_process_runs_on_the_same_scaled_clock() -> None:
    """At 20 times the speed, a pause of 50 ms is a TTFT of at least 1 s, and the stamps are the scaled clock's."""
    clock = ScaledClock(speed=20.0, epoch_seconds=SystemClock().now_seconds())
    canaries = CanaryProcess(clock)
    await canaries.start()
    async with nasty_server((0.05, *GOOD)) as server:
        before_seconds = clock.now_seconds()
        result = await canaries.probe(replace(TASK, url=f"http://127.0.0.1:{server.port}"))
        after_seconds = clock.now_seconds()
    await canaries.stop()
    assert (result.ttft_seconds or 0.0) >= 1.0
    assert before_seconds - 1.0 <= result.at_seconds <= after_seconds + 1.0
