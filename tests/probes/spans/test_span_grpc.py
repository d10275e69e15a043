"""What a sender over OTLP/gRPC is told: the right code, and when to come again."""

from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from receivers import Received, receiving
from span_bodies import export, span

from probes.spans.limits import SpanLimits

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
BODY = export([span()])


async def call(received: Received, body: bytes, **options: Any) -> grpc.aio.AioRpcError | bytes:
    """The answer, or the error."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{received.receiver.grpc_port}") as channel:
        try:
            answer: bytes = await channel.unary_unary(METHOD)(body, timeout=10, **options)
        except grpc.aio.AioRpcError as error:
            return error
        return answer


async def code(received: Received, body: bytes, **options: Any) -> grpc.StatusCode:
    answer = await call(received, body, **options)
    assert isinstance(answer, grpc.aio.AioRpcError), "the export was taken"
    return answer.code()


async def test_says_thank_you() -> None:
    async with receiving(http=None) as received:
        assert await call(received, BODY) == b""
        assert len(await received.until(1)) == 1


async def test_refuses_what_is_no_export() -> None:
    async with receiving(http=None) as received:
        assert await code(received, b"hello") is grpc.StatusCode.INVALID_ARGUMENT
        assert received.receiver.counts.refused == {"malformed": 1}


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip], ids=["plain", "bomb"])
async def test_refuses_large_messages_before_it_holds_them(compression: grpc.Compression) -> None:
    """9 MB; as zeros they are 9 kB on the wire, and gRPC stops unpacking at the limit."""
    async with receiving(http=None) as received:
        answer = await code(received, bytes(9 << 20), compression=compression)
        assert answer is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await call(received, BODY) == b""


async def test_a_full_queue_says_when_to_come_again() -> None:
    async with receiving(http=None, limits=SpanLimits(waiting_bodies=0, retry_after_seconds=3)) as received:
        error = await call(received, BODY)
        assert isinstance(error, grpc.aio.AioRpcError)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        told = dict(error.trailing_metadata())
        info = RetryInfo()
        assert Status.FromString(told["grpc-status-details-bin"]).details[0].Unpack(info)
        assert info.retry_delay.seconds == 3
        assert RetryInfo.FromString(told["google.rpc.retryinfo-bin"]) == info
        assert received.receiver.counts.refused == {"busy": 1}
