"""The user's own collector gets every export we took, as long as it keeps up; if not, receiving does not suffer."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from opentelemetry.sdk.trace.export import SpanExportResult
from receivers import Received, exporter, post, receiving, sdk_spans, send
from span_bodies import export, span

from probes.spans import forward
from probes.spans.forward import ForwardTarget

Answering = Callable[[web.Request], Awaitable[web.Response]]


@contextlib.asynccontextmanager
async def collector(answering: Answering) -> AsyncIterator[str]:
    """A collector that answers as told; its address."""
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/traces", answering)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def forwarding(url: str, timeout_seconds: float = 5.0) -> AsyncIterator[Received]:
    async with aiohttp.ClientSession() as session:
        target = ForwardTarget(url, {"Authorization": "Bearer made-up"}, timeout_seconds)
        async with receiving(forward=target, session=session) as received:
            yield received


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
async def test_every_export_goes_on_as_it_came(protocol: str) -> None:
    """To a receiver of ours, which stands for the collector: the same requests arrive at both."""
    async with receiving() as user, forwarding(user.url) as received:
        sent = await send(exporter(protocol, received.receiver), sdk_spans(30))
        assert sent is SpanExportResult.SUCCESS
        assert await received.until(30) == await user.until(30)
        assert received.receiver.counts.forwarded == {"ok": 1}


async def test_sends_the_bytes_and_the_headers_it_was_given() -> None:
    got: list[tuple[bytes, str, str]] = []

    async def take(request: web.Request) -> web.Response:
        got.append((await request.read(), request.content_type, request.headers["Authorization"]))
        return web.Response()

    body = export([span()])
    async with collector(take) as url, forwarding(url) as received:
        await post(received.url, body)
        await received.until(1)
    assert got == [(body, "application/x-protobuf", "Bearer made-up")]


async def test_what_we_refuse_is_not_sent_on() -> None:
    """Its sender comes again, or is told that it is no export."""
    got: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        got.append(await request.read())
        return web.Response()

    async with collector(take) as url, forwarding(url) as received:
        assert (await post(received.url, b"hello")).status == 400
    assert got == []


async def test_a_collector_that_hangs_holds_up_nobody() -> None:
    """Nothing gets through to it, more comes than may wait, and all is received; stopping takes two seconds."""
    released = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await released.wait()
        return web.Response()

    count = forward.WAITING_BODIES + 20
    async with collector(hang) as url:
        async with forwarding(url) as received:
            for _ in range(count):
                assert (await post(received.url, export([span()]))).status == 200
            assert len(await received.until(count)) == count
            counts = received.receiver.counts
            assert counts.forwarded["dropped"] >= 19
        released.set()
    assert counts.forwarded["dropped"] + counts.forwarded["failed"] == count


async def test_a_collector_that_is_away_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with forwarding("http://user:secret@127.0.0.1:9/v1/traces") as received:
        for _ in range(3):
            await post(received.url, export([span()]))
        await received.until(3)
    assert received.receiver.counts.forwarded == {"failed": 3}
    told = [record.message for record in caplog.records if record.name == forward.__name__]
    assert told == ["spans not taken by the collector collector=127.0.0.1:9"]
    assert "made-up" not in repr(ForwardTarget("x", {"Authorization": "Bearer made-up"}))


@pytest.mark.parametrize("status", [302, 400, 503])
async def test_a_collector_that_says_no_is_counted(status: int) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": "http://127.0.0.1:9/"})

    async with collector(refuse) as url, forwarding(url) as received:
        await post(received.url, export([span()]))
        await received.until(1)
    assert received.receiver.counts.forwarded == {"failed": 1}
