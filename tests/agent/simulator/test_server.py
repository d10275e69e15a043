"""The simulator over HTTP: what a client of vLLM sees."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agent.simulator.fleet import Direct, Fleet
from agent.simulator.plant import Plant
from agent.simulator.router import LeastLoad
from agent.simulator.server import SimulatorServer
from probes.clock import SystemClock

COMPLETIONS = "/v1/completions"
TIMEOUT = aiohttp.ClientTimeout(total=10)


def _free_ports() -> int:
    with socket.socket() as first:
        first.bind(("127.0.0.1", 0))
        return int(first.getsockname()[1])


@pytest.fixture
async def base(tmp_path: Path) -> AsyncIterator[str]:
    clock = SystemClock()
    fleet = Fleet(
        Plant().build, Direct(LeastLoad()), None, clock.now_seconds(), counts={"aggregated": 1}, cold_start_seconds=0.3
    )
    port = _free_ports()
    server = SimulatorServer(fleet, clock, "127.0.0.1", port, file_sd_path=tmp_path / "sd.json")
    task = asyncio.create_task(server.run())
    for _ in range(100):
        await asyncio.sleep(0.02)
        if (tmp_path / "sd.json").exists():
            break
    yield f"http://127.0.0.1:{port}"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _events(base: str, body: dict[str, object], path: str = "/v1/chat/completions") -> list[str]:
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session, session.post(base + path, json=body) as response:
        assert response.status == 200
        text = await response.text()
    return [line.removeprefix("data: ") for line in text.split("\n\n") if line]


async def test_chat_stream_begins_with_the_role_and_ends_with_usage(base: str) -> None:
    body = {
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 3,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    events = await _events(base, body)
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [0, 1, 2, 3, 3]
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"
    assert chunks[-1]["choices"] == []


async def test_equal_prompts_have_equal_answers_and_the_second_is_cached(base: str) -> None:
    body = {"prompt": "x" * 4000, "max_tokens": 5, "ignore_eos": True}
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        answers = []
        for _ in range(2):
            async with session.post(base + "/v1/completions", json=body) as response:
                answers.append(await response.json())
    assert answers[0]["choices"] == answers[1]["choices"]
    assert [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers] == [0, 992]


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"prompt": "x", "model": "other"}, 404, "NotFoundError"),
        ({"model": "llama8b"}, 400, "BadRequestError"),
        ({"prompt": "x", "priority": 3}, 400, "BadRequestError"),
        ({"prompt": "x", "max_tokens": 20_000}, 400, "BadRequestError"),
        ({"prompt": "x", "max_tokens": 0}, 400, "BadRequestError"),
    ],
)
async def test_refusals_are_worded_as_vllm_words_them(
    base: str, body: dict[str, object], status: int, kind: str
) -> None:
    async with (
        aiohttp.ClientSession(timeout=TIMEOUT) as session,
        session.post(base + "/v1/completions", json=body) as response,
    ):
        assert response.status == status
        assert (await response.json())["error"]["type"] == kind


async def test_new_replica_answers_after_its_cold_start_and_stands_in_file_sd(base: str, tmp_path: Path) -> None:
    host, port = base.removeprefix("http://").split(":")
    new = f"http://{host}:{int(port) + 1}/health"
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        async with session.post(base + "/control/replicas", json={"count": 2}) as response:
            assert [each["phase"] for each in (await response.json())["replicas"]] == ["ready", "starting"]
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(new)
        await asyncio.sleep(0.6)
        async with session.get(new) as response:
            assert response.status == 200
    groups = json.loads((tmp_path / "sd.json").read_text())
    assert [group["targets"] for group in groups] == [[f"{host}:{port}"], [f"{host}:{int(port) + 1}"]]
    assert groups[0]["labels"]["model"] == "llama8b"


async def test_a_client_that_hangs_up_is_aborted(base: str) -> None:
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        body = {"prompt": "x", "max_tokens": 5000, "ignore_eos": True, "stream": True}
        response = await session.post(base + "/v1/completions", json=body)
        await response.content.readline()
        response.close()
        await asyncio.sleep(0.2)
        async with session.get(base + "/control/status") as status:
            assert (await status.json())["replicas"][0]["requests_running"] == 0


async def test_the_truth_of_served_requests_can_be_asked_for(base: str) -> None:
    """One request of 3 tokens: its own id, its tokens, and a TTFT of at least the front end's 18 ms."""
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        body = {"prompt": "x", "max_tokens": 3, "ignore_eos": True}
        async with session.post(base + "/v1/completions", json=body, headers={"X-Request-Id": "mine"}) as response:
            await response.read()
        async with session.get(base + "/control/requests") as response:
            truth = (await response.json())["requests"]
    assert [(each["id"], each["output_tokens"], each["state"]) for each in truth] == [("cmpl-mine", 3, "finished")]
    assert truth[0]["ttft_seconds"] >= 0.018


async def test_spans_are_posted_to_an_otlp_endpoint(tmp_path: Path) -> None:
    """One request, one span, in a body that a collector can read."""
    bodies: list[bytes] = []

    async def collect(request: web.Request) -> web.Response:
        bodies.append(await request.read())
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", collect)
    runner = web.AppRunner(app)
    await runner.setup()
    collector, port = _free_ports(), _free_ports()
    await web.TCPSite(runner, "127.0.0.1", collector).start()
    clock = SystemClock()
    fleet = Fleet(
        Plant().build, Direct(LeastLoad()), None, clock.now_seconds(), counts={"aggregated": 1}, cold_start_seconds=0.3
    )
    endpoint = f"http://127.0.0.1:{collector}/v1/traces"
    server = SimulatorServer(fleet, clock, "127.0.0.1", port, otlp_endpoint=endpoint)
    task = asyncio.create_task(server.run())
    await asyncio.sleep(0.1)
    await _events(
        f"http://127.0.0.1:{port}", {"prompt": "x", "max_tokens": 2, "ignore_eos": True, "stream": True}, COMPLETIONS
    )
    for _ in range(40):
        await asyncio.sleep(0.05)
        if bodies:
            break
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await runner.cleanup()
    request = ExportTraceServiceRequest()
    request.ParseFromString(bodies[0])
    assert [span.name for span in request.resource_spans[0].scope_spans[0].spans] == ["llm_request"]
