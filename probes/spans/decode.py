"""From the bytes of one export to the requests in it. Pure; a bad span costs itself and no other."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from probes.spans import attributes, wire
from probes.spans.limits import SpanLimits
from probes.spans.request_span import read_request_span
from probes.spans.result import SpanResult

REQUEST_SPAN: Final = "llm_request"  # vLLM since 0.6
_NAME_CHARACTERS: Final = 64
_FIELDS_PER_SPAN: Final = 4  # a span, its scope and its resource, each alone in its layer, and one to spare


@dataclass(frozen=True, slots=True)
class Decoded:
    """What one export held. `others` counts spans that are no requests, by name; `lost` what could not be read.

    Reasons of `lost`: "malformed" (a span, or what is around some: how many is not known), "oversized" (a span or a
    resource), "too_many" (once for a body with more spans than are read).
    """

    spans: list[SpanResult] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)


def decode_export(body: bytes, limits: SpanLimits) -> Decoded:
    """Every `llm_request` span of an ExportTraceServiceRequest; whatever the bytes are, nothing is raised."""
    decoded, read = Decoded(), 0
    walk = wire.Walk(_FIELDS_PER_SPAN * limits.spans_per_body)
    try:
        for resource, raw in _spans(memoryview(body), walk, decoded.lost, limits):
            if read == limits.spans_per_body:
                raise wire.TooManyFieldsError  # noqa: TRY301  one way out for both bounds
            read += 1
            _decode_span(raw, resource, decoded, limits)
    except wire.TooManyFieldsError:
        decoded.lost["too_many"] += 1
    return decoded


def _spans(
    body: memoryview, walk: wire.Walk, lost: Counter[str], limits: SpanLimits
) -> Iterator[tuple[Mapping[str, str], memoryview]]:
    """Each span's bytes with its resource. A layer that breaks off gives what came before."""
    for resource_spans in _layer(walk, body, wire.RESOURCE_SPANS, lost):
        resource = _resource(walk, resource_spans, lost, limits)
        for scope_spans in _layer(walk, resource_spans, wire.SCOPE_SPANS, lost):
            for span in _layer(walk, scope_spans, wire.SPANS, lost):
                yield resource, span


def _layer(walk: wire.Walk, message: memoryview, wanted: int, lost: Counter[str]) -> Iterator[memoryview]:
    try:
        yield from (content for number, content in walk.fields(message) if number == wanted)
    except wire.WireError:
        lost["malformed"] += 1


def _resource(walk: wire.Walk, resource_spans: memoryview, lost: Counter[str], limits: SpanLimits) -> dict[str, str]:
    """The fields of attributes.RESOURCE, "" where unknown. The resource may stand behind its spans."""
    raw = next(_layer(walk, resource_spans, wire.RESOURCE, Counter()), memoryview(b""))
    found: dict[str, attributes.Value] = {}
    if len(raw) > limits.span_bytes:
        lost["oversized"] += 1
    else:
        try:
            resource = Resource.FromString(bytes(raw))
            found = attributes.read_attributes(resource.attributes, limits.attributes, limits.text_characters)
        except DecodeError:
            lost["malformed"] += 1
    return {name: attributes.text(found, places) for name, places in attributes.RESOURCE.items()}


def _decode_span(raw: memoryview, resource: Mapping[str, str], decoded: Decoded, limits: SpanLimits) -> None:
    if len(raw) > limits.span_bytes:
        decoded.lost["oversized"] += 1
        return
    try:
        span = Span.FromString(bytes(raw))
    except DecodeError:
        decoded.lost["malformed"] += 1
        return
    if span.name == REQUEST_SPAN:
        decoded.spans.append(read_request_span(span, resource, limits))
    else:
        decoded.others[span.name[:_NAME_CHARACTERS]] += 1
