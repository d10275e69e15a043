"""One finished request as its server's span tells it. Frozen, and `None` is what the span does not say."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

Outcome = Literal["ok", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class SpanResult:
    """One finished sequence of one request. Times are seconds; stamps are unix seconds of the server's clock.

    `request_id` is the server's name for the request, `client_request_id` what the client sent as `X-Request-Id`.
    `outcome` is "failed" where the server gave up, "unknown" where the span does not tell (an embedding has no tokens
    either). A failed span has no phases: its server fills them with its uptime.
    `ttft_seconds` and `e2e_seconds` begin when the server has read the request, so they hold the queue, and neither
    the network nor a router. `tpot_seconds` is the decode time over the tokens after the first, None below two.
    `target`, `service`, `instance`, `model`, `pod` and `role` come from the resource; "" where it lacks them.
    """

    trace_id: str = ""
    span_id: str = ""
    request_id: str = ""
    client_request_id: str = ""
    outcome: Outcome = "unknown"
    is_canary: bool = False
    start_at_seconds: float | None = None
    end_at_seconds: float | None = None
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    e2e_seconds: float | None = None
    queue_seconds: float | None = None
    prefill_seconds: float | None = None
    decode_seconds: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    target: str = ""
    service: str = ""
    instance: str = ""
    model: str = ""
    pod: str = ""
    role: str = ""

    @property
    def is_ok(self) -> bool:
        return self.outcome == "ok"

    def keeps(self, ttft_seconds: float, tpot_seconds: float) -> bool | None:
        """Whether this request is a good one by both thresholds; None where the span cannot say.

        A failed request is never good. A request of one token has no pace, so its first token alone decides, as in
        `vllm bench serve --goodput`.
        """
        if self.outcome == "failed":
            return False
        has_pace = self.output_tokens is None or self.output_tokens > 1
        figures = [(self.ttft_seconds, ttft_seconds), *([(self.tpot_seconds, tpot_seconds)] if has_pace else [])]
        if any(figure is not None and figure > most for figure, most in figures):
            return False
        return None if not self.is_ok or any(figure is None for figure, _ in figures) else True


_SPAN = TypeAdapter(SpanResult)


def span_body(span: SpanResult) -> dict[str, Any]:
    """The span as the JSON body of a recording's `span` entry, without what is unknown."""
    return {name: value for name, value in asdict(span).items() if value not in (None, "")}


def read_span(body: Mapping[str, Any]) -> SpanResult:
    """The span of such a body; keys of a later version are ignored. Raises ValueError where one has a wrong type."""
    return _SPAN.validate_python({name: body[name] for name in SpanResult.__dataclass_fields__ if name in body})
