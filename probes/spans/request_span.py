"""One `llm_request` span made into one result: which of its figures can be true."""

from collections.abc import Mapping
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from probes.spans import attributes as names
from probes.spans.attributes import Value
from probes.spans.limits import SpanLimits
from probes.spans.request_id import client_request_id, is_canary
from probes.spans.result import Outcome, SpanResult

# The phases are stamped by another clock than the end to end time (monotonic, wall): they may differ by so much.
_CLOCK_SLACK_SECONDS: Final = 1.0
_FAILED_REASONS: Final = frozenset({"error", "abort"})
_FIRST_STAMP_SECONDS: Final = 946_684_800.0  # the year 2000: an earlier clock was never set
_LAST_STAMP_SECONDS: Final = 7_258_118_400.0  # 2200


def read_request_span(span: Span, resource: Mapping[str, str], limits: SpanLimits) -> SpanResult:
    """The request of this span, of the server that `resource` describes (the fields of attributes.RESOURCE)."""
    found = names.read_attributes(span.attributes, limits.attributes, limits.text_characters)
    start, end = _stamp(span.start_time_unix_nano), _stamp(span.end_time_unix_nano)
    figures = {field: names.seconds(found, places) for field, places in names.SECONDS.items()}
    counts = {field: names.tokens(found, places) for field, places in names.TOKENS.items()}
    kept = _believable(figures, counts["output_tokens"])
    request_id = names.text(found, (names.REQUEST_ID,))
    client_id = client_request_id(request_id)
    return SpanResult(
        trace_id=span.trace_id[:16].hex(),
        span_id=span.span_id[:8].hex(),
        request_id=request_id,
        client_request_id=client_id,
        outcome=_outcome(span, found, counts["output_tokens"]),
        is_canary=is_canary(client_id),
        start_at_seconds=start,
        end_at_seconds=None if start is not None and end is not None and end < start else end,
        ttft_seconds=kept["ttft_seconds"],
        tpot_seconds=kept["tpot_seconds"],
        e2e_seconds=kept["e2e_seconds"],
        queue_seconds=kept["queue_seconds"],
        prefill_seconds=kept["prefill_seconds"],
        decode_seconds=kept["decode_seconds"],
        prompt_tokens=counts["prompt_tokens"],
        output_tokens=counts["output_tokens"],
        cached_tokens=counts["cached_tokens"],
        target=resource["target"],
        service=resource["service"],
        instance=resource["instance"],
        model=names.text(found, names.SPAN_MODEL) or resource["model"],
        pod=resource["pod"],
        role=resource["role"],
    )


def _outcome(span: Span, found: Mapping[str, Value], output_tokens: int | None) -> Outcome:
    """vLLM 0.32 sets no status: a request for text that ended without a token is the only failure it shows."""
    reasons = found.get(names.FINISH_REASONS)
    if span.status.code == Status.STATUS_CODE_ERROR or names.ERROR_TYPE in found:
        return "failed"
    if isinstance(reasons, tuple) and not _FAILED_REASONS.isdisjoint(reasons):
        return "failed"
    if output_tokens:
        return "ok"
    asked_for_text = names.SEQUENCES in found or names.MAX_TOKENS in found
    return "failed" if output_tokens == 0 and asked_for_text else "unknown"


def _believable(figures: Mapping[str, float | None], output_tokens: int | None) -> dict[str, float | None]:
    """The figures that can be true: without a token there are no phases, and no phase outlasts the request."""
    e2e = figures["e2e_seconds"]
    if not output_tokens:
        return {**dict.fromkeys(figures), "e2e_seconds": e2e, "tpot_seconds": None}
    most = names.MOST_SECONDS if e2e is None else e2e + _CLOCK_SLACK_SECONDS
    kept = {field: value if value is not None and value <= most else None for field, value in figures.items()}
    kept["ttft_seconds"] = kept["ttft_seconds"] or None  # 0.0 is what vLLM's field holds before a first token
    decode = kept["decode_seconds"]
    pace = None if decode is None or output_tokens < 2 else decode / (output_tokens - 1)
    return {**kept, "tpot_seconds": pace}


def _stamp(nanoseconds: int) -> float | None:
    seconds = nanoseconds / 1_000_000_000  # whole numbers divide without rounding twice
    return seconds if _FIRST_STAMP_SECONDS <= seconds <= _LAST_STAMP_SECONDS else None
