"""Attributes of spans and resources: the few names we read, and their values made safe."""

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

Value = float | int | str | tuple[str, ...]

MOST_SECONDS: Final = 86_400.0  # no request takes a day; an uptime does
MOST_TOKENS: Final = 1_000_000_000
_TEXTS: Final = 16  # of a list

# Our field <- the span attributes that may hold it, the first that does. vLLM 0.32 writes the first of each row; the
# others are OpenTelemetry's newer names, which an open change of vLLM's (#40799) writes: not yet seen from a server.
SECONDS: Final[Mapping[str, tuple[str, ...]]] = {
    "ttft_seconds": ("gen_ai.latency.time_to_first_token",),
    "e2e_seconds": ("gen_ai.latency.e2e",),
    "queue_seconds": ("gen_ai.latency.time_in_queue",),
    "prefill_seconds": ("gen_ai.latency.time_in_model_prefill",),
    "decode_seconds": ("gen_ai.latency.time_in_model_decode",),
}
TOKENS: Final[Mapping[str, tuple[str, ...]]] = {
    "prompt_tokens": ("gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens"),
    "output_tokens": ("gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens"),
    "cached_tokens": ("gen_ai.usage.cache_read.input_tokens",),
}
REQUEST_ID: Final = "gen_ai.request.id"
SEQUENCES: Final = "gen_ai.request.n"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
ERROR_TYPE: Final = "error.type"
SPAN_MODEL: Final = ("gen_ai.response.model", "gen_ai.request.model")

# vLLM itself names neither model nor pod nor role: these come from OTEL_RESOURCE_ATTRIBUTES (docs/spans.md).
RESOURCE: Final[Mapping[str, tuple[str, ...]]] = {
    "target": ("slo_agent.target",),
    "service": ("service.name",),
    "instance": ("service.instance.id",),
    "model": ("gen_ai.request.model", "gen_ai.response.model", "model_name", "model"),
    "pod": ("k8s.pod.name",),
    "role": ("llm-d.ai/role", "vllm.role", "role"),
}


def read_attributes(pairs: Iterable[KeyValue], most: int, text_characters: int) -> dict[str, Value]:
    """The first `most` attributes whose value is a number, a text or a list of texts, by name."""
    found: dict[str, Value] = {}
    for pair in islice(pairs, most):
        value = _value(pair.value, text_characters)
        if value is not None:
            found[pair.key] = value
    return found


def seconds(found: Mapping[str, Value], names: Iterable[str]) -> float | None:
    """A duration; None where it is missing, negative, not finite or longer than a day."""
    value = _first(found, names)
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= MOST_SECONDS:
        return None
    return float(value)


def tokens(found: Mapping[str, Value], names: Iterable[str]) -> int | None:
    """A count; None where it is missing, negative, absurd or no whole number."""
    value = _first(found, names)
    if not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS or value != int(value):
        return None
    return int(value)


def text(found: Mapping[str, Value], names: Iterable[str]) -> str:
    """A text; "" where there is none."""
    value = _first(found, names)
    return value if isinstance(value, str) else ""


def _first(found: Mapping[str, Value], names: Iterable[str]) -> Value | None:
    return next((found[name] for name in names if name in found), None)


def _value(value: AnyValue, text_characters: int) -> Value | None:
    kind = value.WhichOneof("value")
    if kind == "double_value":
        return value.double_value
    if kind == "int_value":
        return value.int_value
    if kind == "string_value":
        return value.string_value[:text_characters]
    if kind == "array_value":
        return tuple(item.string_value[:text_characters] for item in islice(value.array_value.values, _TEXTS))
    return None
