"""Exports for tests: captured ones, and made-up ones that are told apart by what a test changes."""

import os
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

SHARED = Path(os.environ.get("SLO_AGENT_SHARED", Path(__file__).parents[4] / "shared")) / "data" / "spans"
START_NANOSECONDS = 1_795_969_397_250_000_000
START_SECONDS = START_NANOSECONDS / 1_000_000_000
IDS = count(1)

# A request as vLLM 0.32 tells it: 0.5 s to the first of 11 tokens, then 2 s for ten more.
GOOD: Mapping[str, Any] = {
    "gen_ai.latency.time_to_first_token": 0.5,
    "gen_ai.latency.e2e": 2.5,
    "gen_ai.latency.time_in_queue": 0.125,
    "gen_ai.latency.time_in_model_prefill": 0.25,
    "gen_ai.latency.time_in_model_decode": 2.0,
    "gen_ai.latency.time_in_model_inference": 2.25,
    "gen_ai.usage.prompt_tokens": 100,
    "gen_ai.usage.completion_tokens": 11,
    "gen_ai.request.id": "cmpl-user-7-0",
    "gen_ai.request.n": 1,
}


def captured(name: str) -> bytes:
    """A body that vLLM 0.32 has sent; skips the test where the collection is not there."""
    file = SHARED / f"{name}.pb"
    if not file.exists():
        pytest.skip(f"{file} is not there: set SLO_AGENT_SHARED to the folder that holds data/")
    return file.read_bytes()


def span(name: str = "llm_request", **changed: Any) -> Span:
    """A good request's span, with other attributes where named (dots as `__`); None takes one away."""
    attributes = {**GOOD, **{key.replace("__", "."): value for key, value in changed.items()}}
    return named_span(name, {key: value for key, value in attributes.items() if value is not None})


def named_span(name: str, attributes: Mapping[str, Any]) -> Span:
    number = next(IDS)
    return Span(
        trace_id=number.to_bytes(16),
        span_id=number.to_bytes(8),
        name=name,
        start_time_unix_nano=START_NANOSECONDS,
        end_time_unix_nano=START_NANOSECONDS + 2_500_000_000,
        attributes=pairs(attributes),
    )


def export(spans: Iterable[Span], **resource: str) -> bytes:
    """One body with one resource, whose attributes are written as those of `span`."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.extend(pairs({key.replace("__", "."): value for key, value in resource.items()}))
    group.scope_spans.add().spans.extend(spans)
    return request.SerializeToString()


def pairs(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in attributes.items()]


def _value(value: Any) -> AnyValue:
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=[_value(item) for item in value]))
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(double_value=value) if isinstance(value, float) else AnyValue(string_value=value)
