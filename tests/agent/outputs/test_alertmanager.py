"""The protocol against a stand-in on loopback: who hears what, when, and what happens when a peer does not take it."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from fake_alertmanager import FakeAlertmanager, alert, effects, until

from agent.config_outputs import Alertmanager
from agent.model import Effects
from agent.outputs.alertmanager import AlertmanagerOutput
from probes.clock import ScaledClock, SystemClock

RESEND_SECONDS = 0.2
Start = Callable[..., Awaitable[str]]
Running = Callable[..., contextlib.AbstractAsyncContextManager[AlertmanagerOutput]]


@pytest.fixture
def start(aiohttp_server: Callable[..., Awaitable[object]]) -> Start:
    """Serve a stand-in; returns its base address."""

    async def serve(fake: FakeAlertmanager) -> str:
        return str((await aiohttp_server(fake.app)).make_url("/am"))

    return serve


@contextlib.asynccontextmanager
async def running(*urls: str, **kwargs: object) -> AsyncIterator[AlertmanagerOutput]:
    given = {"watchdog": False, "timeout_seconds": 0.3, "resend_seconds": RESEND_SECONDS}
    config = Alertmanager(urls=list(urls), **{key: kwargs.pop(key, value) for key, value in given.items()})
    async with aiohttp.ClientSession() as session:
        output = AlertmanagerOutput(config, session, kwargs.pop("clock", SystemClock()), **kwargs)
        task = asyncio.create_task(output.run())
        try:
            yield output
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def seconds_of(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


async def test_a_firing_alert_is_posted_at_once_and_renewed(start: Start) -> None:
    fake = FakeAlertmanager()
    async with running(await start(fake), resend_seconds=RESEND_SECONDS) as output:
        begun = time.monotonic()
        output.update(effects(alert(began=90.0), at=100.0))
        await until(lambda: len(fake.posts) >= 3)
    first, second, third = fake.of("SLOBurnRate")[:3]
    assert fake.posted_at_seconds[0] - begun < RESEND_SECONDS
    assert time.time() - seconds_of(first["startsAt"]) == pytest.approx(10.0, abs=2.0)
    assert first["startsAt"] == second["startsAt"] == third["startsAt"]
    assert seconds_of(second["endsAt"]) - seconds_of(first["endsAt"]) == pytest.approx(RESEND_SECONDS, abs=0.15)


async def test_a_tick_that_changes_nothing_posts_nothing(start: Start) -> None:
    fake = FakeAlertmanager()
    async with running(await start(fake), resend_seconds=30.0) as output:
        for tick in range(5):
            output.update(effects(alert(began=90.0), at=100.0 + tick))
            await asyncio.sleep(0.02)
    assert fake.names() == [["SLOBurnRate"]]


async def test_a_resolved_alert_is_posted_at_once_and_repeated(start: Start) -> None:
    fake = FakeAlertmanager()
    async with running(await start(fake)) as output:
        output.update(effects(alert(began=90.0), at=100.0))
        await until(lambda: len(fake.posts) == 1)
        output.update(effects(alert(began=90.0, ended=101.0), at=101.0))
        await until(lambda: len(fake.posts) >= 3)
    ends = [seconds_of(one["endsAt"]) for one in fake.of("SLOBurnRate")[1:3]]
    assert ends[0] == ends[1] <= time.time()


async def test_the_lease_runs_on_the_machines_clock_when_the_agents_is_scaled(start: Start) -> None:
    """A clock at x100: 1000 agent seconds are 10 real ones, and the lease still ends 4 x resend from now."""
    fake = FakeAlertmanager()
    async with running(await start(fake), clock=ScaledClock(100.0, time.time())) as output:
        output.update(effects(alert(began=9000.0), at=10_000.0))
        await until(lambda: len(fake.posts) >= 1)
    (posted,) = fake.of("SLOBurnRate")[:1]
    assert seconds_of(posted["endsAt"]) - time.time() == pytest.approx(4 * RESEND_SECONDS, abs=0.5)
    assert time.time() - seconds_of(posted["startsAt"]) == pytest.approx(10.0, abs=0.5)


@pytest.mark.parametrize("fault", ["status_500", "timeout", "redirect", "refused_connection"])
async def test_a_peer_in_trouble_delays_no_other(start: Start, unused_tcp_port: int, fault: str) -> None:
    good, bad = FakeAlertmanager(), FakeAlertmanager()
    bad.silent = fault == "timeout"
    bad.status = lambda _body: {"status_500": 500, "redirect": 301}.get(fault, 200)
    bad_url = f"http://127.0.0.1:{unused_tcp_port}" if fault == "refused_connection" else await start(bad)
    async with running(bad_url, await start(good), timeout_seconds=30.0) as output:
        begun = time.monotonic()
        output.update(effects(alert(), at=100.0))
        await until(lambda: len(good.posts) >= 2, within_seconds=20.0)
    assert good.posted_at_seconds[1] - begun < 20.0, "the good one heard twice while the bad one was still waited for"


async def test_a_peer_that_comes_back_hears_everything_again(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Trouble and its end are one line each, however many posts fail in between."""
    caplog.set_level(logging.INFO)
    fake = FakeAlertmanager()
    fake.status = lambda _body: 503
    async with running(await start(fake)) as output:
        output.update(effects(alert("A"), alert("B"), at=100.0))
        await until(lambda: len(fake.posts) >= 3)
        fake.posts.clear()
        fake.status = lambda _body: 200
        await until(lambda: len(fake.posts) >= 2)
    assert fake.names()[0] == ["A", "B"]
    lines = [record.getMessage().split(" peer=")[0] for record in caplog.records if "alertmanager" in record.name]
    assert lines == ["alertmanager not reached", "alertmanager reached again"]


async def test_outcomes_are_told_by_peer(start: Start) -> None:
    told: list[tuple[str, str]] = []
    fake = FakeAlertmanager()
    fake.silent = True
    url = await start(fake)
    async with running(url, delivered=lambda *one: told.append(one), timeout_seconds=0.05) as output:
        output.update(effects(alert(), at=100.0))
        await until(lambda: len(told) >= 1)
    assert told[0] == (f"alertmanager/{url.split('/')[2]}", "timeout")


async def test_a_redirect_is_not_followed(aiohttp_server: Callable[..., Awaitable[Any]]) -> None:
    """The post would become a GET of some page that answers 200, and nobody would hear of the alert."""

    async def redirect(_request: web.Request) -> web.Response:
        return web.Response(status=301, headers={"Location": "/login"})

    async def login(_request: web.Request) -> web.Response:
        return web.Response()

    told: list[str] = []
    app = web.Application()
    app.router.add_post("/api/v2/alerts", redirect)
    app.router.add_get("/login", login)
    url = str((await aiohttp_server(app)).make_url("")).rstrip("/")
    async with running(url, delivered=lambda _output, outcome: told.append(outcome)) as output:
        output.update(effects(alert(), at=100.0))
        await until(lambda: len(told) >= 1)
    assert told[0] == "status_301"


async def test_an_end_that_only_the_changes_tell_keeps_its_time(start: Start) -> None:
    """It ended 5 s before the tick, and the snapshot no longer names it."""
    fake = FakeAlertmanager()
    async with running(await start(fake), resend_seconds=30.0) as output:
        output.update(effects(alert(began=90.0), at=100.0))
        await until(lambda: len(fake.posts) == 1)
        over = Effects((alert(began=90.0, ended=96.0),), (), effects(at=101.0).snapshot)
        output.update(over)
        await until(lambda: len(fake.posts) == 2)
    assert time.time() - seconds_of(fake.posts[1][0]["endsAt"]) == pytest.approx(5.0, abs=1.0)


async def test_one_invalid_alert_is_found_left_out_and_not_tried_for_ever(start: Start) -> None:
    """Alertmanager stores the valid alerts of a batch and answers 400 without naming the other."""
    fake = FakeAlertmanager()
    fake.status = lambda body: 400 if any(one["labels"]["alertname"] == "Bad" for one in body) else 200
    async with running(await start(fake)) as output:
        output.update(effects(alert("A"), alert("B"), alert("Bad"), alert("C"), at=100.0))
        await until(lambda: ["A", "B", "C"] in fake.names())
        fake.posts.clear()
        await until(lambda: len(fake.posts) >= 3)
    assert fake.names()[:3] == [["A", "B", "C"]] * 3


async def test_many_alerts_go_out_in_batches(start: Start) -> None:
    fake = FakeAlertmanager()
    async with running(await start(fake), resend_seconds=30.0) as output:
        output.update(effects(*(alert(f"A{number}") for number in range(300)), at=100.0))
        await until(lambda: len(fake.posts) >= 2)
    assert [len(body) for body in fake.posts] == [256, 44]


async def test_a_skewed_peer_gets_the_alert_again_at_once_without_an_end(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """The first answer shows that its clock is ten minutes ahead; the lease that was sent is over there."""
    fake = FakeAlertmanager()
    fake.ahead_seconds = 600.0
    async with running(await start(fake), resend_seconds=30.0) as output:
        output.update(effects(alert(), at=100.0))
        await until(lambda: len(fake.posts) >= 2)
    assert ["endsAt" in one for one in fake.of("SLOBurnRate")] == [True, False]
    (line,) = [record.getMessage() for record in caplog.records if "skew" in record.getMessage()]
    assert "skew_seconds=600" in line or "skew_seconds=599" in line


async def test_the_watchdog_fires_with_the_nodes_name_from_the_first_tick_on(start: Start) -> None:
    fake = FakeAlertmanager()
    async with running(await start(fake), watchdog=True, node="gpu-7") as output:
        await asyncio.sleep(RESEND_SECONDS * 2)
        assert fake.posts == []
        output.update(effects(at=100.0))
        await until(lambda: len(fake.posts) >= 1)
    assert fake.posts[0][0]["labels"] == {"alertname": "Watchdog", "severity": "none", "node": "gpu-7"}


async def test_the_watchdog_falls_silent_when_ticks_stop(start: Start) -> None:
    """A stuck agent must look dead; its other alerts go on, for nobody has seen them end."""
    fake = FakeAlertmanager()
    async with running(await start(fake), watchdog=True, resend_seconds=0.05) as output:
        output.update(effects(alert("A"), at=100.0))
        await until(lambda: fake.names()[-1:] == [["A"]])
    assert fake.names()[0] == ["A", "Watchdog"]


async def test_what_a_peer_has_not_heard_is_told_at_the_end(start: Start) -> None:
    """An end between the last round and the shutdown; the alert that still fires is not resolved."""
    fake = FakeAlertmanager()
    async with aiohttp.ClientSession() as session:
        config = Alertmanager(urls=[await start(fake)], watchdog=False)
        output = AlertmanagerOutput(config, session, SystemClock())
        output.update(effects(alert("A"), alert("B", ended=99.0), at=100.0))
        await output.drain()
    assert fake.names() == [["A", "B"]]
    assert seconds_of(fake.of("A")[0]["endsAt"]) > time.time()


async def test_the_end_does_not_wait_for_a_dead_peer(start: Start) -> None:
    fake = FakeAlertmanager()
    fake.silent = True
    async with aiohttp.ClientSession() as session:
        config = Alertmanager(urls=[await start(fake)], watchdog=False, timeout_seconds=0.1)
        output = AlertmanagerOutput(config, session, SystemClock())
        output.update(effects(alert("A"), at=100.0))
        begun = time.monotonic()
        await output.drain()
    assert time.monotonic() - begun < 1.0


async def test_no_peer_is_no_work() -> None:
    async with aiohttp.ClientSession() as session:
        await asyncio.wait_for(AlertmanagerOutput(Alertmanager(), session, SystemClock()).run(), 1.0)
