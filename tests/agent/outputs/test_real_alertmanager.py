"""The same against the real thing: what Alertmanager lists, and whom it notifies."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from fake_alertmanager import alert, effects, until

from agent.config_outputs import Alertmanager
from agent.model import Alert
from agent.outputs.alertmanager import AlertmanagerOutput
from probes.clock import SystemClock

pytestmark = pytest.mark.real
RESEND_SECONDS = 0.5
ROUTES = """
route: {{receiver: hook, group_by: [alertname], group_wait: 10ms, group_interval: 100ms, repeat_interval: 1h}}
receivers:
  - name: hook
    webhook_configs: [{{url: "{url}", send_resolved: true}}]
"""


class RealAlertmanager:
    """A process of its own, with its own storage each time it starts."""

    def __init__(self, binary: str, port: int, folder: Path, hook_url: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._binary, self._port, self._folder = binary, port, folder
        self._hook_url = hook_url
        self._process: asyncio.subprocess.Process | None = None
        self._starts = 0

    async def start(self) -> None:
        self._starts += 1
        routes = self._folder / "alertmanager.yml"
        routes.write_text(ROUTES.format(url=self._hook_url))
        self._process = await asyncio.create_subprocess_exec(
            self._binary,
            f"--config.file={routes}",
            f"--storage.path={self._folder / str(self._starts)}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--cluster.listen-address=",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(20), aiohttp.ClientSession() as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"{self.url}/-/ready") as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(0.05)

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()

    async def alerts(self) -> list[dict[str, Any]]:
        """What its API lists: alerts that have not ended."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/api/v2/alerts") as response:
            listed: list[dict[str, Any]] = await response.json()
            return listed

    async def lists(self, *names: str) -> None:
        """Wait until it lists exactly these alerts."""
        async with asyncio.timeout(10):
            while sorted(one["labels"]["alertname"] for one in await self.alerts()) != sorted(names):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@pytest.fixture
async def notified(aiohttp_server: Callable[..., Any]) -> tuple[str, list[tuple[str, str]]]:
    """A webhook's address, and the (alert name, status) pairs that it was told."""
    told: list[tuple[str, str]] = []

    async def take(request: web.Request) -> web.Response:
        told.extend((one["labels"]["alertname"], one["status"]) for one in (await request.json())["alerts"])
        return web.Response()

    app = web.Application()
    app.router.add_post("/", take)
    server = await aiohttp_server(app)
    return str(server.make_url("/")), told


@pytest.fixture
async def real(
    alertmanager_binary: str, unused_tcp_port: int, tmp_path: Path, notified: tuple[str, list[tuple[str, str]]]
) -> AsyncIterator[RealAlertmanager]:
    started = RealAlertmanager(alertmanager_binary, unused_tcp_port, tmp_path, notified[0])
    await started.start()
    yield started
    await started.stop()


@contextlib.asynccontextmanager
async def running(*urls: str) -> AsyncIterator[AlertmanagerOutput]:
    config = Alertmanager(urls=list(urls), resend_seconds=RESEND_SECONDS, timeout_seconds=2.0)
    async with aiohttp.ClientSession() as session:
        output = AlertmanagerOutput(config, session, SystemClock(), node="gpu-7")
        task = asyncio.create_task(output.run())
        yield output
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_person_is_told_of_the_alert_and_of_its_end(
    real: RealAlertmanager, notified: tuple[str, list[tuple[str, str]]], amtool: str
) -> None:
    told = notified[1]
    async with running(real.url) as output:
        output.update(effects(alert(severity="page", node="gpu-7", began=90.0), at=100.0))
        await real.lists("SLOBurnRate", "Watchdog")
        assert await _amtool_names(amtool, real.url) == ["SLOBurnRate", "Watchdog"]
        await until(lambda: ("SLOBurnRate", "firing") in told)
        output.update(effects(alert(severity="page", node="gpu-7", began=90.0, ended=101.0), at=101.0))
        await real.lists("Watchdog")
        await until(lambda: ("SLOBurnRate", "resolved") in told)
    assert [status for name, status in told if name == "SLOBurnRate"] == ["firing", "resolved"]


async def test_a_firing_alert_comes_back_after_alertmanager_lost_everything(real: RealAlertmanager) -> None:
    async with running(real.url) as output:
        output.update(effects(alert(began=90.0), at=100.0))
        await real.lists("SLOBurnRate", "Watchdog")
        (before,) = [one for one in await real.alerts() if one["labels"]["alertname"] == "SLOBurnRate"]
        await real.stop()
        await asyncio.sleep(RESEND_SECONDS * 2)
        await real.start()
        await real.lists("SLOBurnRate", "Watchdog")
        (after,) = [one for one in await real.alerts() if one["labels"]["alertname"] == "SLOBurnRate"]
    assert (after["startsAt"], after["fingerprint"]) == (before["startsAt"], before["fingerprint"])


async def test_a_dead_second_peer_keeps_nothing_from_the_first(
    real: RealAlertmanager, unused_tcp_port_factory: Callable[[], int]
) -> None:
    async with running(f"http://127.0.0.1:{unused_tcp_port_factory()}", real.url) as output:
        output.update(effects(alert(), at=100.0))
        await real.lists("SLOBurnRate", "Watchdog")


async def test_an_agent_that_dies_leaves_the_alert_until_its_lease_ends(real: RealAlertmanager) -> None:
    """4 x 0.5 s: still there after 1 s, gone after 2."""
    async with running(real.url) as output:
        output.update(effects(alert(), at=100.0))
        await real.lists("SLOBurnRate", "Watchdog")
    await asyncio.sleep(1.0)
    assert len(await real.alerts()) == 2
    await real.lists()


async def test_an_agent_that_comes_back_in_time_causes_no_notification(
    real: RealAlertmanager, notified: tuple[str, list[tuple[str, str]]]
) -> None:
    told = notified[1]
    async with running(real.url) as output:
        output.update(effects(alert(began=90.0), at=100.0))
        await until(lambda: ("SLOBurnRate", "firing") in told)
    await asyncio.sleep(RESEND_SECONDS)
    async with running(real.url) as output:
        output.update(effects(alert(began=90.0), at=101.0))
        await asyncio.sleep(RESEND_SECONDS * 5)
    assert [one for one in told if one[0] == "SLOBurnRate"] == [("SLOBurnRate", "firing")]


async def test_new_annotations_make_no_second_alert(real: RealAlertmanager) -> None:
    worse = Alert(alert(began=90.0).labels, {"summary": "worse"}, 90.0)
    async with running(real.url) as output:
        output.update(effects(alert(began=90.0), at=100.0))
        await real.lists("SLOBurnRate", "Watchdog")
        output.update(effects(worse, at=101.0))
        async with asyncio.timeout(5):
            while "worse" not in [one["annotations"]["summary"] for one in await real.alerts()]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await real.lists("SLOBurnRate", "Watchdog")


async def test_an_invalid_alert_keeps_the_valid_ones_from_nothing(real: RealAlertmanager) -> None:
    """Alertmanager 0.25 refuses a label name with a dash."""
    async with running(real.url) as output:
        output.update(effects(alert("A"), alert("Bad", **{"no-such-name": "x"}), alert("B"), at=100.0))
        await real.lists("A", "B", "Watchdog")
        await asyncio.sleep(RESEND_SECONDS * 5)
        await real.lists("A", "B", "Watchdog")


async def _amtool_names(amtool: str, url: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        amtool, "alert", "query", f"--alertmanager.url={url}", "--output=json", stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    return sorted(one["labels"]["alertname"] for one in json.loads(printed))
