"""Spans come in from the real exporters over both protocols, and the receiver leaves nothing behind."""

import asyncio
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.sdk.trace.export import SpanExportResult
from receivers import Received, exporter, post, receiving, sdk_spans, send
from span_bodies import START_SECONDS, captured, export, span

from probes.spans.limits import SpanLimits
from probes.spans.receiver import ListenError, SpanReceiver
from probes.spans.result import SpanResult

PROTOCOLS = ("grpc", "http/protobuf")
GZIP: dict[str, Any] = {"grpc": grpc.Compression.Gzip, "http/protobuf": Compression.Gzip}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_real_sdks_spans_arrive(protocol: str, *, is_packed: bool) -> None:
    options = {"compression": GZIP[protocol]} if is_packed else {}
    async with receiving() as received:
        sender = exporter(protocol, received.receiver, **options)
        sent = await send(sender, sdk_spans(20, service__name="chat", k8s__pod__name="chat-0"))
        spans = await received.until(20)
        await asyncio.to_thread(sender.shutdown)
    assert sent is SpanExportResult.SUCCESS
    assert [one.client_request_id for one in spans] == [f"user-{number}" for number in range(20)]
    first = spans[0]
    assert (first.service, first.pod, first.outcome) == ("chat", "chat-0", "ok")
    assert (first.ttft_seconds, first.tpot_seconds) == (0.5, pytest.approx(0.2))
    assert (first.start_at_seconds, first.end_at_seconds) == (START_SECONDS, START_SECONDS + 2.5)
    assert received.receiver.counts.bodies == {"grpc" if protocol == "grpc" else "http": 1}


async def test_the_captured_exports_of_vllm_arrive() -> None:
    async with receiving() as received:
        for name in ("001", "002", "003", "004"):
            assert (await post(received.url, captured(name))).status == 200
        await received.until(12)
        counts = received.receiver.counts
    assert (counts.requests, counts.canaries, counts.others.total()) == (12, 0, 11)


async def test_canaries_are_delivered_marked_and_counted_apart() -> None:
    canary = span(gen_ai__request__id="chatcmpl-slo-canary-1")
    async with receiving() as received:
        await post(received.url, export([canary, span()]))
        spans = await received.until(2)
        assert [one.is_canary for one in spans] == [True, False]
        assert (received.receiver.counts.canaries, received.receiver.counts.requests) == (1, 1)


async def test_a_batch_that_is_sent_again_counts_once() -> None:
    """An exporter that missed our answer sends it again; spans without an id cannot be known again."""
    nameless = span()
    nameless.span_id = b""
    body = export([span(), span(), nameless])
    async with receiving() as received:
        await post(received.url, body)
        await post(received.url, body)
        spans = await received.until(4)
        assert len(spans) == 4
        assert received.receiver.counts.repeated == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_sender_that_finds_the_queue_full_comes_again_and_loses_nothing(protocol: str) -> None:
    """A large body is being read and fills the queue; the SDK's is refused, waits a second, and is taken."""
    large = export([span() for _ in range(4000)])
    async with receiving(limits=SpanLimits(waiting_bytes=len(large))) as received:
        assert (await post(received.url, large)).status == 200
        sent = await send(exporter(protocol, received.receiver), sdk_spans(20))
        assert received.receiver.counts.refused["busy"] >= 1
        assert sent is SpanExportResult.SUCCESS
        assert len(await received.until(4020)) == 4020


async def test_the_loop_stays_free_while_a_large_body_is_read() -> None:
    """10,000 spans take 0.3 s or more to read: on the loop, that would be one pause of nearly all the time."""
    body = export([span() for _ in range(10_000)])
    pauses: list[float] = []
    limits = SpanLimits(wire_bytes=16 << 20, body_bytes=16 << 20)

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            pauses.append(time.perf_counter() - before)

    async with receiving(limits=limits) as received:
        watch = asyncio.create_task(tick())
        began = time.perf_counter()
        answer = await post(received.url, body)
        await received.until(10_000)
        took = time.perf_counter() - began
        watch.cancel()
    assert answer.status == 200
    assert max(pauses) < took / 2


async def test_a_fault_in_delivery_costs_its_body_only() -> None:
    spans: list[SpanResult] = []

    def deliver(some: Sequence[SpanResult]) -> None:
        if some[0].client_request_id == "bad":
            raise KeyError("a fault of ours")
        spans.extend(some)

    async with receiving(deliver=deliver) as received:
        await post(received.url, export([span(gen_ai__request__id="bad")]))
        await post(received.url, export([span()]))
        await Received(received.receiver, spans).until(1)
        assert received.receiver.counts.lost["error"] == 1


async def test_what_was_accepted_is_read_before_the_end() -> None:
    async with receiving() as received:
        for _ in range(20):
            await post(received.url, export([span() for _ in range(50)]))
    assert len(received.spans) == 1000
    assert received.receiver.counts.lost == {}


async def test_starts_and_stops_again_and_again_without_leaving_a_thing() -> None:
    """Tasks, files and threads are as before; gRPC keeps threads of its own, so the first round is not counted."""
    left: list[tuple[int, int, int]] = []
    for _ in range(4):
        async with receiving() as received:
            await send(exporter("grpc", received.receiver), sdk_spans(1))
            await send(exporter("http/protobuf", received.receiver), sdk_spans(1))
            await received.until(2)
        await asyncio.sleep(0.05)
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith("spans")]
        left.append((len(asyncio.all_tasks()), len(names), open_files()))
    assert {(tasks, threads) for tasks, threads, _ in left} == {(1, 0)}
    assert left[-1][2] <= left[1][2] + 4


async def test_stopping_twice_is_harmless_and_closes_the_ports() -> None:
    async with receiving() as received:
        ports = (received.receiver.grpc_port, received.receiver.http_port)
        await received.receiver.stop()
        await received.receiver.stop()
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port or 0), timeout=1).close()


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_taken_port_is_told_and_nothing_stays_open(protocol: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        other = {"grpc": "http", "http": "grpc"}[protocol]
        receiver = SpanReceiver(deliver=print, **{protocol: address, other: "127.0.0.1:0"})  # type: ignore[arg-type]
        with pytest.raises(ListenError, match=f"spans.{protocol}: cannot listen on {address}.*Is the port taken"):
            await receiver.start()
    assert len(asyncio.all_tasks()) == 1
    assert (receiver.grpc_port, receiver.http_port) == (None, None)


@pytest.mark.parametrize("address", ["4318", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:99999", ""])
async def test_a_bad_address_is_told(address: str) -> None:
    with pytest.raises(ListenError, match=f'spans.http is "{address}"; expected host:port'):
        await SpanReceiver(deliver=print, http=address).start()


async def test_listens_on_ipv6() -> None:
    async with receiving(grpc="[::1]:0", http="[::1]:0") as received:
        answer = await post(f"http://[::1]:{received.receiver.http_port}/v1/traces", export([span()]))
        assert answer.status == 200
        assert received.receiver.grpc_port


async def test_each_protocol_can_be_left_out() -> None:
    async with receiving(grpc=None) as received:
        assert (received.receiver.grpc_port, received.receiver.http_port is None) == (None, False)
