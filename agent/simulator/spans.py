"""OTLP spans as vLLM 0.32 exports them: one `llm_request` per finished sequence, in one protobuf body."""

import os
from collections.abc import Iterable
from hashlib import blake2b

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agent.simulator.ask import Sequence

SCOPE = "vllm.tracing.otel"  # captured export of 0.32


def export_body(sequences: Iterable[Sequence], *, service: str = "unknown_service:python") -> bytes:
    """The body of one OTLP/HTTP export (ExportTraceServiceRequest). Aborted requests have no span, as in vLLM."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    names = {
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "vllm.instrumenting_module_name": "vllm.llm_engine",
        "vllm.process_id": str(os.getpid()),
        "service.name": service,
    }
    resource.resource.attributes.extend(_text(key, value) for key, value in names.items())
    scope = resource.scope_spans.add()
    scope.scope.name = SCOPE
    scope.spans.extend(_span(sequence) for sequence in sequences if sequence.state == "finished")
    return bytes(request.SerializeToString())


def _span(sequence: Sequence) -> Span:
    ask, ended = sequence.ask, sequence.ended_at_seconds or 0.0
    first = sequence.first_token_at_seconds or ended
    last = sequence.last_token_at_seconds or ended
    scheduled = sequence.scheduled_at_seconds or ended
    name = f"{ask.id}/{sequence.arrived_at_seconds!r}".encode()
    span = Span(
        trace_id=blake2b(name, digest_size=16).digest(),
        span_id=blake2b(name, digest_size=8).digest(),
        name="llm_request",
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=int(sequence.arrived_at_seconds * 1e9),
        end_time_unix_nano=int(ended * 1e9),
    )
    seconds = {
        "gen_ai.latency.time_to_first_token": first - sequence.arrived_at_seconds,
        "gen_ai.latency.e2e": ended - sequence.arrived_at_seconds,
        "gen_ai.latency.time_in_queue": scheduled - sequence.queued_at_seconds,
        "gen_ai.latency.time_in_model_prefill": first - scheduled,
        "gen_ai.latency.time_in_model_decode": last - first,
        "gen_ai.latency.time_in_model_inference": last - scheduled,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.temperature": 1.0,
    }
    counts = {
        "gen_ai.usage.prompt_tokens": ask.prompt_tokens,
        "gen_ai.usage.completion_tokens": sequence.generated_tokens,
        "gen_ai.request.max_tokens": ask.max_tokens or ask.output_tokens,
        "gen_ai.request.n": 1,
    }
    span.attributes.extend(KeyValue(key=key, value=AnyValue(double_value=value)) for key, value in seconds.items())
    span.attributes.extend(KeyValue(key=key, value=AnyValue(int_value=value)) for key, value in counts.items())
    span.attributes.append(_text("gen_ai.request.id", ask.id))
    return span


def _text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))
