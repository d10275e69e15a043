"""Four servers whose front ends are well, asked by real canaries: the page says of each what is wrong with it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import fake_view
import pytest
from aiohttp import web
from browser import Page
from fake_actions import FakeActions
from serving import Serve

from agent.findings import findings
from probes.canary.chat import ChatCanary
from probes.canary.correctness import CorrectnessCanary
from probes.canary.models import ModelsCanary
from probes.canary.prober import Prober
from probes.canary.task import ProbeTask
from probes.clock import SystemClock
from probes.sample import ProbeResult

pytestmark = pytest.mark.real
KINDS = (ModelsCanary(), ChatCanary(), CorrectnessCanary())
TTFT_SECONDS = 0.4  # of a good request, here
Handler = Callable[[web.StreamResponse], Awaitable[None]]


def chunk(text: str, number: int, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    usage = {"prompt_tokens": 9, "completion_tokens": number}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice], "usage": usage}).encode() + b"\n\n"


def words(text: str) -> list[bytes]:
    """Sixteen tokens that end well."""
    return [chunk(text, number, "stop" if number == 16 else None) for number in range(1, 17)]


async def well(answer: web.StreamResponse, text: str = "12 Paris green ") -> None:
    for event in words(text):
        await answer.write(event)
        await asyncio.sleep(0.01)


async def slow(answer: web.StreamResponse) -> None:
    await asyncio.sleep(1.0)
    await well(answer)


async def half_dead(_: web.StreamResponse) -> None:
    await asyncio.sleep(3600)


async def gibberish(answer: web.StreamResponse) -> None:
    await well(answer, "!!!!")


async def buffered(answer: web.StreamResponse) -> None:
    await asyncio.sleep(0.2)
    await answer.write(b"".join(words("12 Paris green ")))


@contextlib.asynccontextmanager
async def serving(stream: Handler) -> AsyncIterator[str]:
    """A server whose front end is well, and whose engine answers as `stream` does."""

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m"}]})

    async def chat(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):
            await stream(answer)
            await answer.write(b"data: [DONE]\n\n")
        return answer

    app = web.Application()
    app.add_routes([web.get("/v1/models", models), web.post("/v1/chat/completions", chat)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def asked(name: str, stream: Handler) -> list[ProbeResult]:
    """What canaries of three kinds are answered there."""
    prober = Prober(SystemClock())
    async with serving(stream) as url:
        task = ProbeTask(name, url, model="m", planned_at_seconds=fake_view.NOW_SECONDS)
        tasks = [replace(kind.fill(task), first_token_timeout_seconds=2.0) for kind in KINDS]
        results = await asyncio.gather(*(prober.probe(one) for one in tasks))
    return [replace(result, at_seconds=fake_view.NOW_SECONDS - 5) for result in results]


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (well, "serves well"),
        (slow, "serves, but slowly: the first token took 1.0 s, a good request has it within 0.4 s"),
        (half_dead, "half dead: its front end lists the models, but the engine behind it does not answer"),
        (gibberish, "talks gibberish, though it answers in time"),
        (buffered, "answers, but not as a stream: the whole answer came at once: something in between buffers"),
    ],
)
async def test_each_fault_has_its_own_words(serve: Serve, page: Page, stream: Handler, said: str) -> None:
    view = fake_view.calm()
    view.probe_results = await asked("vllm-0", stream)
    view.findings = findings(view.probe_results, {}, TTFT_SECONDS, 1.0)
    client = await serve(view, FakeActions())
    await page.open(str(client.make_url("/")))
    assert said in await page.text("#canaries .findings")
    assert "vllm-0" in await page.text("#canaries .findings")
    assert page.complaints == []


async def test_figures_of_a_kind_and_what_was_noticed_stand_with_the_result(serve: Serve, page: Page) -> None:
    view = fake_view.calm()
    result = ProbeResult("vllm-0", "kv_reuse", "ok", fake_view.NOW_SECONDS - 9, fake_view.NOW_SECONDS - 9)
    figures = {"warm_ttft_seconds": 0.05, "reused_ratio": 0.96, "answers_equal": None}
    view.probe_results = [replace(result, figures=figures, flags=("cached_tokens_unknown",), rank="1")]
    client = await serve(view, FakeActions())
    await page.open(str(client.make_url("/")))
    row = await page.text("#canaries tbody tr")
    for words_ in (
        "kv_reuse, rank 1",
        "warm ttft 50 ms",
        "reused 96 %",
        "the server does not tell what its cache held",
    ):
        assert words_ in row
