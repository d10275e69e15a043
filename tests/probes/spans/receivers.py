"""A receiver on free ports of the loopback address, what it delivered, and the real exporters that send to it."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from span_bodies import GOOD, START_NANOSECONDS

from probes.spans.receiver import SpanReceiver
from probes.spans.result import SpanResult

WAIT_SECONDS = 20.0


@dataclass(slots=True)
class Received:
    """A running receiver and the spans it delivered so far."""

    receiver: SpanReceiver
    spans: list[SpanResult] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.receiver.http_port}/v1/traces"

    async def until(self, count: int) -> list[SpanResult]:
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self.spans) < count:  # noqa: ASYNC110  nothing tells when the last one has come
                await asyncio.sleep(0.01)
        return self.spans


@contextlib.asynccontextmanager
async def receiving(**options: Any) -> AsyncIterator[Received]:
    """Both protocols, unless `grpc` or `http` say otherwise."""
    spans: list[SpanResult] = []

    def deliver(some: Sequence[SpanResult]) -> None:
        spans.extend(some)

    given = {"grpc": "127.0.0.1:0", "http": "127.0.0.1:0", "deliver": deliver, **options}
    receiver = SpanReceiver(**given)
    await receiver.start()
    try:
        yield Received(receiver, spans)
    finally:
        await receiver.stop()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sender over HTTP was told."""

    status: int
    headers: dict[str, str]
    body: bytes


async def post(url: str, body: Any, **headers: str) -> Answer:
    """Headers are written with `_` for `-`; protobuf unless one says otherwise."""
    body = io.BytesIO(body) if isinstance(body, bytes) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers={"Content-Type": "application/x-protobuf", **named}) as answer,
    ):
        return Answer(answer.status, dict(answer.headers), await answer.read())


def sdk_spans(count: int, **resource: str) -> list[ReadableSpan]:
    """Finished spans of the real SDK, made as vLLM makes them."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({key.replace("__", "."): v for key, v in resource.items()}))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("vllm.tracing.otel")
    for number in range(count):
        attributes = {**GOOD, "gen_ai.request.id": f"cmpl-user-{number}-0"}
        one = tracer.start_span(
            "llm_request", kind=SpanKind.SERVER, start_time=START_NANOSECONDS, attributes=attributes
        )
        one.end(START_NANOSECONDS + 2_500_000_000)
    provider.shutdown()
    return list(memory.get_finished_spans())


def exporter(protocol: str, receiver: SpanReceiver, **options: Any) -> SpanExporter:
    """The exporter that vLLM takes for "grpc" and "http/protobuf"."""
    if protocol == "grpc":
        return GrpcExporter(endpoint=f"http://127.0.0.1:{receiver.grpc_port}", insecure=True, **options)
    return HttpExporter(endpoint=f"http://127.0.0.1:{receiver.http_port}/v1/traces", **options)


async def send(sender: SpanExporter, spans: Sequence[ReadableSpan]) -> SpanExportResult:
    """As the SDK does: from a thread."""
    return await asyncio.to_thread(sender.export, spans)
