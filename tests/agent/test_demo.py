"""The demo's stage: its config, its ports, and a simulator that leaves nothing behind."""

import asyncio
import json
import os
import signal
import socket
import time
from pathlib import Path

import aiohttp
import pytest
from loopback import child_pids, until

from agent.demo import Stage, free_port, simulator
from agent.errors import UsageError
from probes.clock import ScaledClock

SPEED = 50.0


def stage(folder: Path, port: int | None = None) -> Stage:
    return Stage(folder, port or free_port(8), SPEED, ScaledClock(SPEED, time.time()))


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
