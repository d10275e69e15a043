"""OTLP/gRPC: TraceService/Export, without TLS, as vLLM speaks it. The protocol: opentelemetry.io/docs/specs/otlp."""

from typing import Any, Final

import grpc  # type: ignore[import-untyped]
from google.protobuf.any_pb2 import Any as AnyMessage  # type: ignore[import-untyped]
from google.protobuf.duration_pb2 import Duration  # type: ignore[import-untyped]
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from probes.spans.intake import SpanIntake
from probes.spans.limits import SpanLimits

SERVICE: Final = "opentelemetry.proto.collector.trace.v1.TraceService"
_STOP_SECONDS: Final = 1.0


class GrpcReceiver:
    """Listens on one address and hands whole messages to the intake, unparsed.

    gRPC itself refuses larger messages, before and after decompression, and too many calls at once
    (RESOURCE_EXHAUSTED): we do not hear of those, so only coverage shows them.
    """

    def __init__(self, intake: SpanIntake, limits: SpanLimits) -> None:
        self._intake, self._limits = intake, limits
        self._server: Any = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port that was taken, for 0. Raises OSError where that is not possible."""
        options = [("grpc.max_receive_message_length", self._limits.body_bytes), ("grpc.so_reuseport", 0)]
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=self._limits.receiving_bodies)
        export = grpc.unary_unary_rpc_method_handler(self._export)  # no deserializer: bytes in, bytes out
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Export": export}),))
        try:
            taken = int(server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}"))
        except RuntimeError as error:
            raise OSError("gRPC cannot listen there") from error
        await server.start()
        self._server = server
        return taken

    async def stop(self) -> None:
        """Close the port; calls in flight have a second to end. Safe to call twice."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(_STOP_SECONDS)

    async def _export(self, body: bytes, context: Any) -> bytes:
        admission = self._intake.offer(body, "grpc")
        if admission == "malformed":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "The message is no ExportTraceServiceRequest.")
        if admission == "stopping":
            await context.abort(grpc.StatusCode.UNAVAILABLE, "The receiver stops.")
        if admission == "busy":
            sentence = "Too many spans wait to be read; send this batch again."
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, sentence, self._retry(sentence))
        answer: bytes = ExportTraceServiceResponse().SerializeToString()
        return answer

    def _retry(self, sentence: str) -> tuple[tuple[str, bytes], ...]:
        """OTLP: RESOURCE_EXHAUSTED means "later" only where a RetryInfo stands beside it.

        Once in gRPC's usual place, and once where OpenTelemetry's Python exporter looks for it.
        """
        info = RetryInfo(retry_delay=Duration(seconds=self._limits.retry_after_seconds))
        packed = AnyMessage()
        packed.Pack(info)
        status = Status(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message=sentence, details=[packed])
        return (
            ("grpc-status-details-bin", status.SerializeToString()),
            ("google.rpc.retryinfo-bin", info.SerializeToString()),
        )
