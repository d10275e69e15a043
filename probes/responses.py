"""The events of an OpenAI Responses stream as the chunks of a completion, so that one reader makes figures of both."""

from typing import Any, Final

TEXT: Final = "response.output_text.delta"
HIDDEN: Final = (
    "response.reasoning_text.delta", "response.reasoning_summary_text.delta", "response.function_call_arguments.delta",
    "response.refusal.delta",
)  # fmt: skip
ENDS: Final = {"response.completed": "stop", "response.incomplete": "length"}
ENDS_BY_STATUS: Final = {"completed": "stop", "incomplete": "length", "cancelled": "abort"}


def is_response_event(chunk: dict[str, Any]) -> bool:
    """Whether this is an event of a Responses stream; a completion's chunk has no such type."""
    return str(chunk.get("type", "")).startswith("response.")


def as_chunks(event: dict[str, Any]) -> list[dict[str, Any]]:
    """The same said as a completion says it: tokens, then the finish reason, then the counts.

    Structural events (created, item added, part added) hold no tokens. A failed response is an error, not read here.
    """
    kind, response = event["type"], event.get("response")
    about = response if isinstance(response, dict) else {}
    head = {"id": about.get("id"), "model": about.get("model")}
    delta = event.get("delta")
    if kind == TEXT or kind in HIDDEN:
        return [{**head, "choices": [{"index": 0, "delta": {"content" if kind == TEXT else "reasoning": delta}}]}]
    if kind not in ENDS:
        return [{**head, "choices": []}]
    finish = {"index": 0, "delta": {}, "finish_reason": _finish_reason(kind, about)}
    return [{**head, "choices": [finish]}, {**head, "choices": [], "usage": _usage(about.get("usage"))}]


def _finish_reason(kind: str, response: dict[str, Any]) -> str:
    """The response's own words; the event's name where it has none. vLLM 0.32 names every end `response.completed`."""
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if reason not in (None, "max_output_tokens"):
        return str(reason)
    said = ENDS_BY_STATUS.get(str(response.get("status")), ENDS[kind])
    return said if reason is None else "length"


def _usage(usage: object) -> dict[str, Any] | None:
    if not isinstance(usage, dict):
        return None
    return {
        "prompt_tokens": usage.get("input_tokens"),
        "completion_tokens": usage.get("output_tokens"),
        "prompt_tokens_details": usage.get("input_tokens_details"),
    }
