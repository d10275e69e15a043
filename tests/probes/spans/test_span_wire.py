"""The walk over an export's layers: as the protobuf library reads them, and a no to everything else."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span
from span_bodies import export, span

from probes.spans.wire import (
    RESOURCE_SPANS,
    SCOPE_SPANS,
    SPANS,
    TooManyFieldsError,
    Walk,
    WireError,
    check_export,
    fields,
)

LAYERS = st.lists(st.lists(st.lists(st.text(), max_size=4), max_size=4), max_size=4)  # span names


def walked(message: memoryview, wanted: int) -> list[memoryview]:
    return [content for number, content in fields(message) if number == wanted]


@given(LAYERS)
def test_finds_what_the_library_wrote(layers: list[list[list[str]]]) -> None:
    request = ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                schema_url="x", scope_spans=[ScopeSpans(spans=[Span(name=name) for name in names]) for names in group]
            )
            for group in layers
        ]
    )
    body = memoryview(request.SerializeToString())
    found = [
        [
            [Span.FromString(bytes(raw)).name for raw in walked(scope_spans, SPANS)]
            for scope_spans in walked(resource_spans, SCOPE_SPANS)
        ]
        for resource_spans in walked(body, RESOURCE_SPANS)
    ]
    assert found == layers


@pytest.mark.parametrize(
    "body",
    [
        b"hello, this is text",
        json.dumps({"resourceSpans": []}).encode(),
        b"<html></html>",
        gzip.compress(b"spans"),
        b"\x0a\x05abc",
        b"\x0a",
        b"\x0a" + b"\xff" * 11,
        b"\x02\x00",
        b"\x0b\x0c",
        b"\x0d\x00\x00",
        b"\x09\x00",
    ],
    ids=["text", "json", "html", "gzip", "cut", "no size", "endless size", "field 0", "group", "cut 32", "cut 64"],
)
def test_refuses_what_is_no_message(body: bytes) -> None:
    with pytest.raises(WireError):
        check_export(body)


def test_unknown_fields_of_every_type_are_passed_over() -> None:
    """Fields 9 and 10: a number, 8 bytes, 4 bytes, bytes."""
    unknown = b"\x48\xac\x02" + b"\x51" + bytes(8) + b"\x4d" + bytes(4) + b"\x52\x01x"
    whole = export([span()])
    assert [bytes(raw) for raw in walked(memoryview(unknown + whole), RESOURCE_SPANS)] == [
        bytes(raw) for raw in walked(memoryview(whole), RESOURCE_SPANS)
    ]


def test_an_empty_body_is_an_export_of_nothing() -> None:
    check_export(b"")


def test_a_walk_ends_with_its_budget() -> None:
    walk = Walk(fields_left=3)
    assert len(list(walk.fields(memoryview(b"\x0a\x00" * 3)))) == 3
    with pytest.raises(TooManyFieldsError):
        list(walk.fields(memoryview(b"\x0a\x00")))
