"""Whatever bytes come: an answer, in bounded time and memory, and never a figure that cannot be true."""

import math
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from span_bodies import GOOD, export, named_span, span

from probes.spans.attributes import MOST_SECONDS
from probes.spans.decode import Decoded, decode_export
from probes.spans.limits import SpanLimits
from probes.spans.result import read_span, span_body

LIMITS = SpanLimits(spans_per_body=50, span_bytes=4096)
WHOLE = export([span() for _ in range(8)], service__name="chat")
NUMBERS = st.one_of(st.floats(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=8), st.lists(st.text(max_size=4)))


def check(body: bytes) -> Decoded:
    found = decode_export(body, LIMITS)
    assert len(found.spans) <= LIMITS.spans_per_body
    for one in found.spans:
        times = (one.ttft_seconds, one.tpot_seconds, one.e2e_seconds, one.queue_seconds, one.prefill_seconds)
        assert all(x is None or (math.isfinite(x) and 0 <= x <= MOST_SECONDS) for x in times)
        assert read_span(span_body(one)) == one
    return found


@given(st.binary(max_size=4096))
def test_any_bytes(body: bytes) -> None:
    check(body)


@given(st.data())
def test_a_real_body_with_bytes_changed_cut_or_put_in(data: st.DataObject) -> None:
    body = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(body)))
        gone = data.draw(st.integers(0, 8))
        body[at : at + gone] = data.draw(st.binary(max_size=8))
    check(bytes(body))


@given(st.dictionaries(st.sampled_from(sorted(GOOD)), NUMBERS), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_any_value_in_any_attribute(values: dict[str, object], start: int, end: int) -> None:
    told = named_span("llm_request", {**GOOD, **values})
    told.start_time_unix_nano, told.end_time_unix_nano = start, end
    assert len(check(export([told])).spans) == 1


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([b"\x0a", b"\x12", b"\x4a", b"\x00", b"\x02", b"\xff", b"\x7f"]), max_size=64))
def test_memory_stays_within_a_few_bodies(unit: list[bytes]) -> None:
    """A unit repeated to 256 kB; what is held beside the body is bounded by the spans that are read."""
    body = (b"".join(unit) or b"\x0a\x00") * 4096
    body = body[: 256 << 10]
    tracemalloc.start()
    try:
        check(body)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 20


def test_the_fuzzed_body_is_a_real_one() -> None:
    assert len(ExportTraceServiceRequest.FromString(WHOLE).resource_spans[0].scope_spans[0].spans) == 8
    assert len(check(WHOLE).spans) == 8
