"""The simulator over HTTP: what a client of vLLM sees."""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agent.simulator.fleet import Direct, Fleet
from agent.simulator.openai_api import OpenAiApi
from agent.simulator.plant import Plant
from agent.simulator.real_time import RealTime
from agent.simulator.router import LeastLoad
from agent.simulator.server import SimulatorServer
from agent.simulator.topology import Topology
from probes.clock import SystemClock

COMPLETIONS = "/v1/completions"
TIMEOUT = aiohttp.ClientTimeout(total=10)


def _free_ports() -> int:
    with socket.socket() as first:
        first.bind(("127.0.0.1", 0))
        return int(first.getsockname()[1])


@asynccontextmanager
async def serving(topology: Topology, file_sd: Path) -> AsyncIterator[str]:
    """A simulator on free ports, once it has said who is ready."""
    clock = SystemClock()
    fleet = topology.fleet(Plant(), None, clock.now_seconds(), cold_start_seconds=1.5)
    port = _free_ports()
    task = asyncio.create_task(SimulatorServer(fleet, clock, "127.0.0.1", port, file_sd_path=file_sd).run())
    for _ in range(200):
        await asyncio.sleep(0.02)
        if os.path.exists(file_sd):  # noqa: ASYNC240, PTH110 - one stat of a local file
            break
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def base(tmp_path: Path) -> AsyncIterator[str]:
    async with serving(Topology(), tmp_path / "sd.json") as address:
        yield address


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


async def test_a_stream_tells_how_much_of_its_prompt_was_cached(base: str) -> None:
    """The second of two equal prompts of 1000 tokens: 62 whole blocks of 16, less none, are 992 tokens."""
    body = {"prompt": "y" * 4000, "max_tokens": 2, "ignore_eos": True, "stream": True}
    body["stream_options"] = {"include_usage": True}
    usages = []
    for _ in range(2):
        events = await _events(base, body, COMPLETIONS)
        usages.append(json.loads(events[-2])["usage"])
    assert "prompt_tokens_details" not in usages[0]
    assert usages[1]["prompt_tokens_details"] == {"cached_tokens": 992}


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


@pytest.mark.parametrize(
    "body",
    [
        '{"messages": [1]}',
        '{"prompt": "x", "stream": true, "stream_options": 5}',
        '{"prompt": "x", "max_tokens": true}',
        "[" * 100_000,
    ],
    ids=["a message that is none", "options that are none", "a count that is none", "a tower of brackets"],
)
async def test_nonsense_is_refused_and_never_a_server_error(base: str, body: str) -> None:
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session, session.post(base + COMPLETIONS, data=body) as answer:
        assert answer.status == 400


async def test_new_replica_answers_after_its_cold_start_and_stands_in_file_sd(base: str, tmp_path: Path) -> None:
    host, port = base.removeprefix("http://").split(":")
    new = f"http://{host}:{int(port) + 1}/health"
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        async with session.post(base + "/control/replicas", json={"count": 2}) as response:
            assert [each["phase"] for each in (await response.json())["replicas"]] == ["ready", "starting"]
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(new)
        for _ in range(100):
            await asyncio.sleep(0.1)
            groups = json.loads((tmp_path / "sd.json").read_text())
            if len(groups) == 2:
                break
        async with session.get(new) as response:
            assert response.status == 200
    assert [group["targets"] for group in groups] == [[f"{host}:{port}"], [f"{host}:{int(port) + 1}"]]
    assert groups[0]["labels"]["model"] == "llama8b"


async def test_a_client_that_hangs_up_is_aborted(base: str) -> None:
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        body = {"prompt": "x", "max_tokens": 5000, "ignore_eos": True, "stream": True}
        response = await session.post(base + "/v1/completions", json=body)
        await response.content.readline()
        response.close()
        running = 1
        for _ in range(50):
            await asyncio.sleep(0.1)
            async with session.get(base + "/control/status") as status:
                running = (await status.json())["replicas"][0]["requests_running"]
            if not running:
                break
        assert running == 0  # 5000 tokens would have taken 23 s


async def test_a_client_that_is_gone_when_its_answer_begins_is_no_error_of_ours() -> None:
    """aiohttp logs a traceback for whatever a handler raises; this request is aborted as if it had hung up earlier."""
    writer = Mock(spec=AbstractStreamWriter)
    writer.write_headers.side_effect = aiohttp.ClientConnectionResetError("Cannot write to closing transport")
    payload = aiohttp.StreamReader(BaseProtocol(asyncio.get_running_loop()), 2**16)
    payload.feed_data(json.dumps({"prompt": "x", "max_tokens": 5000, "ignore_eos": True, "stream": True}).encode())
    payload.feed_eof()
    clock = SystemClock()
    fleet = Topology().fleet(Plant(), None, clock.now_seconds(), cold_start_seconds=1.5)
    request = make_mocked_request("POST", COMPLETIONS, writer=writer, payload=payload)
    ended: list[str] = []
    fleet.listen(lambda sequence: ended.append(sequence.state))
    response = await OpenAiApi(RealTime(fleet, clock), 0).complete(request)
    assert (response.status, ended) == (499, ["aborted"])


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


async def test_a_fault_can_be_laid_on_from_outside(base: str) -> None:
    """A stuck engine still says it is healthy, and answers again when the fault is over."""
    async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
        fault = {"kind": "stuck", "index": 0, "seconds": 0.6}
        async with session.post(base + "/control/fault", json=fault) as response:
            assert response.status == 200
        began = asyncio.get_running_loop().time()
        async with session.get(base + "/health") as response:
            assert response.status == 200
        async with session.post(base + COMPLETIONS, json={"prompt": "x", "max_tokens": 1}) as response:
            assert response.status == 200
        assert asyncio.get_running_loop().time() - began > 0.4
        async with session.post(base + "/control/fault", json={"kind": "rust"}) as response:
            assert response.status == 400


async def test_in_a_split_fleet_every_port_is_the_proxy(tmp_path: Path) -> None:
    """One prefill and one decode engine: the stream has all its tokens, and both engines finished a leg."""
    async with serving(Topology(aggregated=0, prefill=1, decode=1), tmp_path / "sd.json") as address:
        body = {"prompt": "x" * 400, "max_tokens": 5, "ignore_eos": True, "stream": True}
        events = await _events(address, body, COMPLETIONS)
        assert len(events) == 5 + 1
        port = int(address.rsplit(":", 1)[1])
        finished = []
        async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
            for index in range(2):
                async with session.get(f"http://127.0.0.1:{port + index}/metrics") as response:
                    page = await response.text()
                finished.append('finished_reason="length",model_name="llama8b"} 1.0' in page)
                assert "vllm:nixl_post_time_seconds_count" in page
    groups = json.loads((tmp_path / "sd.json").read_text())
    assert finished == [True, True]
    assert [group["labels"]["role"] for group in groups] == ["prefill", "decode"]
