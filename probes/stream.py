"""What a streamed completion says, event by event, with the time each event came. Pure: no clock, no socket."""

import json
import math
from dataclasses import dataclass, field
from typing import Any, Final

from probes.responses import ENDS, as_chunks, is_response_event
from probes.sse import SseEvent

GOOD_FINISH_REASONS: Final = frozenset({"stop", "length", "tool_calls", "function_call"})
ABORTED_FINISH_REASONS: Final = frozenset({"abort", "error", "content_filter"})
_KEPT_TEXT_CHARACTERS: Final = 4096
_KEPT_LOGPROBS: Final = 512


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """One event that carried generated tokens of any channel: text, reasoning, a tool call.

    `completion_tokens` is the server's own running count after it (continuous usage), None where it gives none.
    """

    at_seconds: float
    completion_tokens: int | None


@dataclass(frozen=True, slots=True)
class StreamFault:
    """Why a stream is broken: an outcome class of probes/canary/outcomes.py, and what the server said."""

    outcome: str
    detail: str


@dataclass(slots=True)
class ChatStream:
    """Reads the events of one completion, chat or plain. Feed it in order; it keeps what was seen and the first fault.

    Role-only, empty, usage and finish events are no tokens. Only choice 0 counts. `flags` are warnings by name.
    `logprobs` are those of the generated tokens, where they were asked for and given.
    """

    model: str = ""
    token_events: list[TokenEvent] = field(default_factory=list)
    first_event_at_seconds: float | None = None
    first_text_at_seconds: float | None = None
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    is_done: bool = False
    response_id: str = ""
    fingerprint: str = ""
    text: str = ""
    logprobs: list[float] = field(default_factory=list)
    fault: StreamFault | None = None
    flags: dict[str, None] = field(default_factory=dict)  # an ordered set

    def read(self, event: SseEvent, at_seconds: float) -> None:
        """Take one event that arrived at this monotonic time, seconds."""
        if self.fault is not None:
            return
        if self.is_done and event.data.strip() != b"[DONE]":
            self._flag("data_after_done")
            return
        if event.data.strip() == b"[DONE]":
            self.is_done = True
            return
        chunk = self._parse(event)
        if chunk is None:
            return
        if self.first_event_at_seconds is None:
            self.first_event_at_seconds = at_seconds
        if event.is_truncated:
            self._flag("truncated_tail")
        error = _error_of(chunk, event.name)
        if error is not None:
            self.fault = StreamFault("stream_error", error)
            return
        if not is_response_event(chunk):
            self._read_chunk(chunk, at_seconds)
            return
        for part in as_chunks(chunk):
            self._read_chunk(part, at_seconds)
        self.is_done = chunk["type"] in ENDS

    @property
    def tokens_seen(self) -> int:
        """How many tokens came at least: the server's count, or one for each token event."""
        return max(self.completion_tokens or 0, len(self.token_events))

    def _parse(self, event: SseEvent) -> dict[str, Any] | None:
        try:
            chunk = json.loads(event.data.decode("utf-8"))
        except UnicodeDecodeError:
            self._break("an event is not UTF-8", event)
            return None
        except (ValueError, RecursionError):
            self._break("an event is not JSON", event)
            return None
        if not isinstance(chunk, dict):
            self._break("an event is no JSON object", event)
            return None
        return chunk

    def _break(self, what: str, event: SseEvent) -> None:
        outcome = "truncated" if event.is_truncated else "protocol"
        self.fault = StreamFault(outcome, f"{what}: {event.data[:200].decode('utf-8', 'replace')}")

    def _read_chunk(self, chunk: dict[str, Any], at_seconds: float) -> None:
        if isinstance(chunk.get("id"), str):
            self.response_id = chunk["id"]
        if isinstance(chunk.get("system_fingerprint"), str):
            self.fingerprint = chunk["system_fingerprint"][:128]
        model = chunk.get("model")
        if isinstance(model, str) and self.model and model != self.model:
            self._flag("model_mismatch")
        before = self.completion_tokens or 0
        self._read_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        if choices == [] or ("choices" not in chunk and "usage" in chunk):
            return
        choice = self._choice_zero(choices)
        if choice is None:
            return
        counted = isinstance(chunk.get("usage"), dict) and self.completion_tokens is not None
        has_more = counted and (self.completion_tokens or 0) > before
        self._read_logprobs(choice.get("logprobs"))
        if self.fault is not None:
            return
        delta = {"content": choice["text"]} if "text" in choice else choice.get("delta")  # a plain completion has text
        if self._read_delta(delta, at_seconds) or has_more:
            self.token_events.append(TokenEvent(at_seconds, self.completion_tokens if counted else None))
        self._read_finish(choice.get("finish_reason"))

    def _choice_zero(self, choices: object) -> dict[str, Any] | None:
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            self._flag("malformed_chunk")
            return None
        zero = [choice for choice in choices if choice.get("index", 0) == 0]
        if len(zero) != len(choices) or len(zero) > 1:
            self._flag("extra_choices")
        return zero[0] if zero else None

    def _read_delta(self, delta: object, at_seconds: float) -> bool:
        """True when the delta shows generated tokens of any channel."""
        if not isinstance(delta, dict):
            self._flag("malformed_chunk")
            return False
        content = delta.get("content")
        reasoning = delta.get("reasoning") or delta.get("reasoning_content")
        calls = delta.get("tool_calls")
        if isinstance(content, str) and content:
            if self.first_text_at_seconds is None:
                self.first_text_at_seconds = at_seconds
            self.text = (self.text + content)[:_KEPT_TEXT_CHARACTERS]
        if calls:
            self._flag("tool_calls")
        refusal = delta.get("refusal")
        return bool(content or reasoning or calls or refusal)

    def _read_logprobs(self, logprobs: object) -> None:
        """A probability that is no number is a broken engine; one that is missing says nothing."""
        content = logprobs.get("content") if isinstance(logprobs, dict) else None
        for token in content if isinstance(content, list) else ():
            value = token.get("logprob") if isinstance(token, dict) else None
            if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                self.fault = StreamFault("protocol", f"the log probability of a token is {str(value)[:40]}")
                return
            if len(self.logprobs) < _KEPT_LOGPROBS:
                self.logprobs.append(float(value))

    def _read_usage(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        completion = _count(usage.get("completion_tokens"))
        if completion is not None:
            if completion < (self.completion_tokens or 0):
                self._flag("usage_inconsistent")
            self.completion_tokens = max(completion, self.completion_tokens or 0)
        prompt = _count(usage.get("prompt_tokens"))
        self.prompt_tokens = self.prompt_tokens if prompt is None else prompt
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            cached = _count(details.get("cached_tokens"))
            self.cached_tokens = self.cached_tokens if cached is None else cached

    def _read_finish(self, reason: object) -> None:
        if reason is None:
            return
        self.finish_reason = str(reason)[:64]
        if self.finish_reason not in GOOD_FINISH_REASONS | ABORTED_FINISH_REASONS:
            self._flag("finish_reason_unknown")

    def _flag(self, name: str) -> None:
        self.flags[name] = None


def error_text(error: object) -> str:
    """An OpenAI error object, or whatever stands in its place, as one line: type, code, parameter, message."""
    if not isinstance(error, dict):
        return str(error)
    parts = [
        str(error[key]) for key in ("type", "code", "param", "message", "detail") if error.get(key) not in (None, "")
    ]
    return ": ".join(parts) or json.dumps(error)


def _error_of(chunk: dict[str, Any], event_name: str) -> str | None:
    """What an in-band error says; None when the event is none. vLLM still sends [DONE] after one."""
    if chunk.get("error"):
        return error_text(chunk["error"])
    if chunk.get("type") == "response.failed":
        response = chunk.get("response")
        return error_text(response.get("error") if isinstance(response, dict) else response)
    if event_name == "error" or "error" in (chunk.get("object"), chunk.get("type")):
        return error_text(chunk)
    return None


def _count(value: object) -> int | None:
    """A token count as served; None for what is no count (null, text, negative, a fraction)."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
