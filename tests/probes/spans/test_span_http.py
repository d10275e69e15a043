"""What a sender over OTLP/HTTP is told: the right status, in its own form, and when to come again."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from receivers import Answer, post, receiving
from span_bodies import export, span

from probes.spans.limits import SpanLimits

BODY = export([span()])
BOMB = gzip.compress(bytes(64 << 20))  # 64 MB of zeros in 65 kB


def sentence(answer: Answer) -> str:
    """Of the google.rpc.Status that OTLP wants in an answer to protobuf."""
    assert answer.headers["Content-Type"] == "application/x-protobuf"
    return str(Status.FromString(answer.body).message)


async def test_says_thank_you_in_protobuf() -> None:
    async with receiving(grpc=None) as received:
        answer = await post(received.url, BODY)
        assert (answer.status, answer.headers["Content-Type"]) == (200, "application/x-protobuf")
        assert ExportTraceServiceResponse.FromString(answer.body) == ExportTraceServiceResponse()


async def test_reads_gzip() -> None:
    async with receiving(grpc=None) as received:
        assert (await post(received.url, gzip.compress(BODY), Content_Encoding="gzip")).status == 200
        assert len(await received.until(1)) == 1


@pytest.mark.parametrize(
    ("body", "headers", "status", "reason", "told"),
    [
        (b"hello", {}, 400, "malformed", "no ExportTraceServiceRequest"),
        (BODY[:-5], {}, 400, "malformed", "no ExportTraceServiceRequest"),
        (BODY, {"Content_Encoding": "gzip"}, 400, "malformed", "not gzip'd"),
        (gzip.compress(BODY)[:-5], {"Content_Encoding": "gzip"}, 400, "malformed", "cut off"),
        (gzip.compress(BODY) + b"x", {"Content_Encoding": "gzip"}, 400, "malformed", "something follows"),
        (BODY, {"Content_Encoding": "br"}, 415, "encoding", "Only gzip"),
        (BODY, {"Content_Type": "text/plain"}, 415, "media_type", "http/protobuf"),
        (bytes(5 << 20), {}, 413, "too_large", "4194304 bytes"),
        (BOMB, {"Content_Encoding": "gzip"}, 413, "too_large", "8388608 bytes"),
    ],
    ids=["text", "cut", "not gzip", "cut gzip", "more than gzip", "brotli", "not OTLP", "5 MB", "bomb"],
)
async def test_refuses(body: bytes, headers: dict[str, str], status: int, reason: str, told: str) -> None:
    async with receiving(grpc=None) as received:
        answer = await post(received.url, body, **headers)
        assert answer.status == status
        assert told in sentence(answer)
        assert "Retry-After" not in answer.headers  # sending the same again is no use
        assert received.receiver.counts.refused == {reason: 1}
        assert (await post(received.url, BODY)).status == 200


async def test_refuses_json_in_json() -> None:
    async with receiving(grpc=None) as received:
        answer = await post(received.url, b'{"resourceSpans": []}', Content_Type="application/json")
        assert (answer.status, answer.headers["Content-Type"].split(";")[0]) == (415, "application/json")
        assert "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf" in json.loads(answer.body)["message"]


async def test_a_body_of_no_stated_length_is_stopped_at_the_limit() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield bytes(64 << 10)

    async with receiving(grpc=None) as received:
        try:
            answer = await post(received.url, endless())
            assert answer.status == 413
        except OSError:
            pass  # the connection may be closed before the answer is read
        assert received.receiver.counts.refused == {"too_large": 1}


async def test_a_sender_that_stands_still_is_let_go() -> None:
    async def stuck() -> AsyncIterator[bytes]:
        yield BODY[:10]
        await asyncio.sleep(5)

    async with receiving(grpc=None, limits=SpanLimits(receive_seconds=0.1)) as received:
        assert (await post(received.url, stuck())).status == 408
        assert received.receiver.counts.refused == {"timeout": 1}


@pytest.mark.parametrize("limits", [{"waiting_bodies": 0}, {"waiting_bytes": 10}, {"receiving_bodies": 0}], ids=str)
async def test_a_full_queue_asks_the_sender_to_come_again(limits: dict[str, int]) -> None:
    async with receiving(grpc=None, limits=SpanLimits(**limits, retry_after_seconds=3)) as received:
        answer = await post(received.url, BODY)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "3")
        assert "send this batch again" in sentence(answer)
        assert received.receiver.counts.refused == {"busy": 1}


async def test_other_paths_and_methods_are_not_ours() -> None:
    async with receiving(grpc=None) as received:
        assert (await post(received.url.replace("traces", "metrics"), BODY)).status == 404
        async with aiohttp.ClientSession() as session, session.get(received.url) as answer:
            assert answer.status == 405


HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        [HEAD + b"Content-Length: 1000\r\n\r\n" + BODY[:20]],
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n", b"zz\r\n"],
    ],
    ids=["hangs up", "no chunk"],
)
async def test_a_body_that_breaks_off_leaves_nothing_but_a_count(
    caplog: pytest.LogCaptureFixture, sent: list[bytes]
) -> None:
    """No traceback in the log, and its place is free again."""
    async with receiving(grpc=None, limits=SpanLimits(receiving_bodies=1)) as received:
        _, writer = await asyncio.open_connection("127.0.0.1", received.receiver.http_port)
        for part in sent:
            writer.write(part)
            await asyncio.sleep(0.1)
        writer.transport.abort()
        await asyncio.sleep(0.1)
        assert (await post(received.url, BODY)).status == 200
        assert received.receiver.counts.refused == {"cut_off": 1}
    assert [record.message for record in caplog.records] == []
