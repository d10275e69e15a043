"""The whole agent with its outputs: a taken port, outputs that are down, and what leaving it leaves behind."""

import asyncio
import socket
import threading
import time
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from loopback import METRICS, answers, child_pids, config, never, open_sockets, outcomes, points, server, target, until

from agent.errors import UsageError
from agent.service import Extras, serving
from probes.clock import SystemClock

DEAD = "http://127.0.0.1:9"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def test_a_taken_port_is_told_and_leaves_nothing_running() -> None:
    tasks, threads, children = asyncio.all_tasks(), set(threading.enumerate()), set(child_pids())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        of = config(server={"listen": listen}, outputs={"otlp": {"endpoint": DEAD + "/v1/metrics"}})
        with pytest.raises(UsageError, match=f"cannot listen on {listen}: .*Set server.listen"):
            async with serving(of, SystemClock(), Extras()):
                pytest.fail("it started")
    assert asyncio.all_tasks() == tasks
    assert set(threading.enumerate()) <= threads, "one that another test has left may end meanwhile"
    assert set(child_pids()) <= children


@pytest.mark.parametrize("listen", ["127.0.0.1:99999", "no-such-host.invalid:1", "203.0.113.7:1"])
async def test_an_address_that_cannot_be_listened_on_is_told(listen: str) -> None:
    with pytest.raises(UsageError, match="cannot listen on"):
        async with serving(config(server={"listen": listen}), SystemClock(), Extras()):
            pytest.fail("it started")


async def test_goes_on_while_every_output_is_down_and_stops_in_time(tmp_path: Path) -> None:
    """Alertmanager refuses, the collector hangs, the JSON-lines file cannot be written: watching goes on."""
    port = free_port()
    async with server(answers(METRICS)) as good, server(never) as black_hole:
        of = config(
            targets=[target("a", good.url)],
            alertmanager={"urls": [DEAD, black_hole.url], "resend_seconds": 0.3, "timeout_seconds": 0.5},
            outputs={
                "otlp": {"endpoint": black_hole.url + "/v1/metrics", "interval_seconds": 0.2, "timeout_seconds": 0.5},
                "jsonl": str(tmp_path / "no" / "such" / "folder.jsonl"),
            },
            server={"listen": f"127.0.0.1:{port}"},
        )
        async with serving(of, SystemClock(), Extras()) as running, aiohttp.ClientSession() as session:
            await until(lambda: len(good.asked) >= 5, "the target was read")
            await until(
                lambda: any(
                    labels[0].startswith("alertmanager") and labels[1] != "ok"
                    for labels in points(running, "slo_agent_deliveries_total")
                ),
                "a failed delivery was counted",
            )
            await until(lambda: running.view.snapshot().at_seconds > 0, "a tick")
            assert outcomes(running) == {"a": "ok"}
            async with session.get(f"http://127.0.0.1:{port}/-/ready") as answer:
                assert answer.status == 200
            async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                assert 'slo_agent_scrapes_total{outcome="ok",target="a"}' in await answer.text()
            leaving = time.monotonic()
        assert time.monotonic() - leaving < 20


async def test_leaving_leaves_no_task_socket_thread_or_process() -> None:
    tasks, children, sockets, threads = asyncio.all_tasks(), child_pids(), open_sockets(), threading.active_count()
    port = free_port()

    async def accepts(_request: web.Request) -> web.Response:
        return web.json_response({})

    async with server(answers(METRICS)) as good, server(accepts) as outputs:
        of = config(
            targets=[target("a", good.url)],
            alertmanager={"urls": [outputs.url], "resend_seconds": 0.3, "timeout_seconds": 2},
            outputs={"otlp": {"endpoint": outputs.url + "/v1/metrics", "interval_seconds": 0.2, "timeout_seconds": 2}},
            server={"listen": f"127.0.0.1:{port}"},
        )
        async with serving(of, SystemClock(), Extras()):
            await until(lambda: len(good.asked) >= 2, "the target was read")
            await until(lambda: len(outputs.asked) >= 2, "outputs were written to")
    await until(lambda: asyncio.all_tasks() == tasks, "no task was left")
    assert child_pids() == children
    await until(lambda: open_sockets() <= sockets, "no socket was left")
    await until(lambda: threading.active_count() <= threads + 2, "no thread was left but the loop's own")
    with socket.create_server(("127.0.0.1", port)):
        pass  # the port is free again
