"""The demo's parts: its config, its narrator and operator, and a simulator that leaves nothing behind."""

import asyncio
import json
import os
import signal
import socket
import time
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from loopback import child_pids, server, until

from agent.demo import Stage, Story, free_port, simulator
from agent.errors import UsageError
from agent.model import Alert, Effects, Recommendation, Snapshot
from probes.clock import ScaledClock

SPEED = 50.0


def stage(folder: Path, port: int | None = None) -> Stage:
    return Stage(folder, port or free_port(8), SPEED, ScaledClock(SPEED, time.time()))


def effects(
    *, alerts: tuple[Alert, ...] = (), advice: tuple[Recommendation, ...] = (), firing: tuple[Alert, ...] = ()
) -> Effects:
    return Effects(alerts, advice, Snapshot(120.0, (), (), firing, ()))


def page(ends_at: float | None = None) -> Alert:
    labels = (("alertname", "SLOBurnRate"), ("severity", "page"), ("tier", "fast"), ("slo", "chat"))
    words = {"summary": "chat burns", "cause": "a queue"}
    return Alert(labels=labels, annotations=words, starts_at_seconds=100.0, ends_at_seconds=ends_at)


def advice(verdict: str | None = None) -> Recommendation:
    return Recommendation(
        id="scale-1", at_seconds=110, model="m", role="aggregated", action="scale", current=2, proposed=4,
        low=3, high=5, reason_code="sustained_queueing", binding="queue",
        summary="Scale m from 2 to 4 replicas.", confidence=0.7,
        meets_slo=None, evidence=(), alternatives=(), do_nothing={}, side_effects=(), steps=(), rollback="",
        verify_at_seconds=900, verdict=verdict,
    )  # fmt: skip


def test_its_config_has_the_stages_addresses_and_no_windows_of_its_own(tmp_path: Path) -> None:
    """Standard windows and the same SLO code: only the clock is fast."""
    config = stage(tmp_path).config("127.0.0.1:1234")
    assert config.server.listen == "127.0.0.1:1234"
    assert [source.path for source in config.discovery] == [tmp_path / "targets.json"]
    assert config.burn.windows == []
    assert config.slos


@pytest.mark.parametrize("listen", ["nowhere", "", "host:port", "127.0.0.1:"])
def test_an_address_that_is_none_is_told(tmp_path: Path, listen: str) -> None:
    with pytest.raises(UsageError, match="Write HOST:PORT"):
        stage(tmp_path).config(listen)


def test_free_ports_are_free() -> None:
    first = free_port(3)
    for port in range(first, first + 3):
        socket.create_server(("127.0.0.1", port)).close()


async def test_the_simulator_answers_and_leaves_no_process(tmp_path: Path) -> None:
    children = child_pids()
    playing = stage(tmp_path)
    async with simulator(playing) as engines, aiohttp.ClientSession() as session:
        async with session.get(engines.address + "/metrics") as answer:
            assert "vllm:generation_tokens_total" in await answer.text()
        assert not engines.death.done()
        assert json.loads((tmp_path / "targets.json").read_text())
        assert child_pids() - children
    await until(lambda: child_pids() == children, "its process was gone")


async def test_a_simulator_that_dies_is_noticed(tmp_path: Path) -> None:
    children = child_pids()
    async with simulator(stage(tmp_path)) as engines:
        for pid in child_pids() - children:
            os.kill(pid, signal.SIGKILL)
        assert await asyncio.wait_for(asyncio.shield(engines.death), 20) == -signal.SIGKILL


@pytest.mark.parametrize("url", ["nowhere", "ftp://host", "http://user:secret@host:9093"])
def test_an_alertmanager_that_is_none_is_told(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="Write an address such as") as told:
        stage(tmp_path).config("127.0.0.1:1234", [url])
    assert "secret" not in str(told.value)


async def test_a_simulator_that_cannot_start_is_told(tmp_path: Path) -> None:
    children = child_pids()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        playing = stage(tmp_path, taken.getsockname()[1])
        with pytest.raises(UsageError, match="simulator"):
            async with simulator(playing):
                pytest.fail("it started")
    assert child_pids() == children


async def test_the_narrator_tells_page_advice_verdict_and_the_end() -> None:
    said: list[str] = []
    asked: list[object] = []

    async def scales(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.json_response({})

    async with server(scales) as control:
        story = Story(control.url, ScaledClock(1000, time.time()), said.append, 0.0)
        story.hear(effects(alerts=(page(),), firing=(page(),)))
        story.hear(effects(advice=(advice(),), firing=(page(),)))
        await until(lambda: asked == [{"count": 4}], "the operator did what the advice says")
        assert not story.ended.is_set()
        story.hear(effects(advice=(advice("kept"),)))
        story.hear(effects(alerts=(page(ends_at=119.0),)))
        await until(lambda: any("operator asks for 4" in line for line in said), "it was told")
    assert story.ended.is_set()
    text = "\n".join(said)
    for words in (
        "[  2.0 min] PAGE: chat burns",
        "why: a queue",
        "ADVICE: Scale m",
        "verdict on scale-1: kept",
        "resolved",
    ):
        assert words in text


async def test_an_operator_who_cannot_scale_says_so() -> None:
    said: list[str] = []
    story = Story("http://127.0.0.1:9", ScaledClock(1000, time.time()), said.append, 0.0)
    story.hear(effects(advice=(advice(),)))
    await until(lambda: any("could not scale" in line for line in said), "it was told")
    await asyncio.sleep(0)
