"""OTLP/HTTP with protobuf bodies: `POST /v1/traces`. The protocol: opentelemetry.io/docs/specs/otlp, "OTLP/HTTP"."""

import asyncio
import re
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from google.protobuf.json_format import MessageToJson  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from probes.spans.counts import SpanCounts
from probes.spans.gunzip import GunzipError, TooLargeError, gunzip
from probes.spans.intake import SpanIntake
from probes.spans.limits import SpanLimits

PATH: Final = "/v1/traces"
PROTOBUF: Final = "application/x-protobuf"
_SHUTDOWN_SECONDS: Final = 1.0
_INVALID_ARGUMENT, _RESOURCE_EXHAUSTED, _UNAVAILABLE = 3, 8, 14  # google.rpc.Code


@dataclass(slots=True)
class _Refusal(Exception):  # noqa: N818  it is an answer, not a fault of ours
    """Why an export is not taken: the counter's word, the status, and a sentence for whoever set the sender up."""

    reason: str
    status: int
    sentence: str
    code: int = _INVALID_ARGUMENT


class HttpReceiver:
    """Listens on one address, hands whole bodies to the intake, and tells every sender what became of its own."""

    def __init__(self, intake: SpanIntake, counts: SpanCounts, limits: SpanLimits) -> None:
        self._intake, self._counts, self._limits = intake, counts, limits
        self._receiving = 0
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port that was taken, for 0. Raises OSError where that is not possible."""
        # We unpack: aiohttp would do so without a limit on what comes out.
        self._runner = web.AppRunner(
            self.app(), access_log=None, auto_decompress=False, shutdown_timeout=_SHUTDOWN_SECONDS
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close the port; requests in flight have a second to end. Safe to call twice."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def app(self) -> web.Application:
        """The application with its one route; whoever runs it has to switch `auto_decompress` off."""
        app = web.Application()
        app.router.add_post(PATH, self._export)
        return app

    async def _export(self, request: web.Request) -> web.Response:
        try:
            self._check_head(request)
            if self._receiving >= self._limits.receiving_bodies:
                raise self._busy("busy")
            self._receiving += 1
            try:
                body = await self._body(request)
            finally:
                self._receiving -= 1
            self._offer(body)
        except _Refusal as refusal:
            return self._answer(request, refusal)
        return web.Response(body=ExportTraceServiceResponse().SerializeToString(), content_type=PROTOBUF)

    def _offer(self, body: bytes) -> None:
        admission = self._intake.offer(body, "http")  # which counts what it refuses
        if admission == "malformed":
            raise _Refusal("", 400, "The body is no ExportTraceServiceRequest in protobuf.")
        if admission != "accepted":
            raise self._busy("")

    def _busy(self, reason: str) -> _Refusal:
        """503 and not 429, at which OpenTelemetry's Python exporter 1.30, for one, gives a batch up."""
        return _Refusal(reason, 503, "Too many spans wait to be read; send this batch again.", _UNAVAILABLE)

    def _check_head(self, request: web.Request) -> None:
        if request.content_type != PROTOBUF:
            told = "OTLP with JSON bodies is not read here" if "json" in request.content_type else "Not OTLP"
            raise _Refusal("media_type", 415, f"{told}: set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf.")
        if _encoding(request) not in ("identity", "gzip"):
            raise _Refusal("encoding", 415, "Only gzip, or no compression, is read here.")
        if (request.content_length or 0) > self._limits.wire_bytes:
            raise self._too_large(self._limits.wire_bytes)

    def _too_large(self, most_bytes: int) -> _Refusal:
        sentence = f"An export may have {most_bytes} bytes here; lower OTEL_BSP_MAX_EXPORT_BATCH_SIZE."
        return _Refusal("too_large", 413, sentence, _RESOURCE_EXHAUSTED)

    async def _body(self, request: web.Request) -> bytes:
        """The unpacked body. Read by parts, so that a sender who says nothing of its length is stopped as well."""
        raw = bytearray()
        try:
            async with asyncio.timeout(self._limits.receive_seconds):
                async for part in request.content.iter_any():
                    raw += part
                    if len(raw) > self._limits.wire_bytes:
                        raise self._too_large(self._limits.wire_bytes)
        except TimeoutError as error:
            raise _Refusal("timeout", 408, f"No whole body within {self._limits.receive_seconds:g} s.") from error
        except (OSError, web.RequestPayloadError, HttpProcessingError) as error:
            raise _Refusal("cut_off", 400, "The body does not end as its headers say.") from error
        if _encoding(request) == "identity":
            return bytes(raw)
        try:
            return await asyncio.to_thread(gunzip, bytes(raw), self._limits.body_bytes)
        except GunzipError as error:
            raise _Refusal("malformed", 400, f"Not read: {error}.") from error
        except TooLargeError as error:
            raise self._too_large(self._limits.body_bytes) from error

    def _answer(self, request: web.Request, refusal: _Refusal) -> web.Response:
        """A google.rpc.Status in the form in which the sender spoke, as OTLP wants it."""
        if refusal.reason:
            self._counts.refused[refusal.reason] += 1
        status = Status(code=refusal.code, message=refusal.sentence)
        is_json = re.search(r"\bjson\b", request.content_type) is not None
        response = web.Response(
            status=refusal.status,
            body=MessageToJson(status).encode() if is_json else status.SerializeToString(),
            content_type="application/json" if is_json else PROTOBUF,
        )
        if refusal.status == 503:
            response.headers["Retry-After"] = str(self._limits.retry_after_seconds)
        if refusal.status in (408, 413, 503):
            response.force_close()  # the rest of its body is not worth reading
        return response


def _encoding(request: web.Request) -> str:
    return request.headers.get("Content-Encoding", "identity").strip().lower() or "identity"
