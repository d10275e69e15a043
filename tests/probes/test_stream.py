"""The reader of streamed chat completions: what counts as a token, as a text, as an end."""

import json
from typing import Any

import pytest

from probes.sse import SseEvent
from probes.stream import ChatStream, StreamFault


def chunk(delta: Any = None, *, finish: str | None = None, usage: Any = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "x", "model": "m", "choices": [choice], "usage": usage, **more}


def usage(completion: int, prompt: int = 9) -> dict[str, int]:
    return {"completion_tokens": completion, "prompt_tokens": prompt}


def read(*chunks: Any, model: str = "m") -> ChatStream:
    """Feed chunks one second apart, from second 1 on."""
    stream = ChatStream(model)
    for at_seconds, one in enumerate(chunks, start=1):
        data = one if isinstance(one, bytes) else json.dumps(one).encode()
        stream.read(SseEvent(data), float(at_seconds))
    return stream


@pytest.mark.parametrize(
    ("delta", "is_token"),
    [
        pytest.param({"role": "assistant"}, False, id="role only"),
        pytest.param({"role": "assistant", "content": ""}, False, id="role and empty content"),
        pytest.param({"content": ""}, False, id="empty content"),
        pytest.param({"content": None}, False, id="null content"),
        pytest.param({}, False, id="empty delta"),
        pytest.param({"content": " "}, True, id="a space is text"),
        pytest.param({"reasoning": "hm"}, True, id="reasoning"),
        pytest.param({"reasoning_content": "hm"}, True, id="reasoning_content"),
        pytest.param({"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}, True, id="tool call"),
        pytest.param({"refusal": "no"}, True, id="refusal"),
    ],
)
def test_a_token_is_generated_output_of_any_channel(delta: dict[str, Any], *, is_token: bool) -> None:
    assert bool(read(chunk(delta)).token_events) == is_token


def test_an_event_that_the_server_counts_is_a_token_even_without_text() -> None:
    """A parser that swallows text still generates: vLLM's running count goes from 0 to 2 on an empty delta."""
    stream = read(chunk({"role": "assistant"}, usage=usage(0)), chunk({"content": ""}, usage=usage(2)))
    assert [(event.at_seconds, event.completion_tokens) for event in stream.token_events] == [(2.0, 2)]


def test_a_final_count_is_no_token() -> None:
    stream = read(chunk({"content": "a"}), {"choices": [], "usage": usage(1)})
    assert len(stream.token_events) == 1
    assert (stream.completion_tokens, stream.prompt_tokens) == (1, 9)


def test_first_text_is_the_first_visible_one() -> None:
    """Reasoning is the first token, at second 2; text comes at second 3."""
    stream = read(chunk({"role": "assistant"}), chunk({"reasoning": "hm"}), chunk({"content": "a"}))
    assert stream.first_event_at_seconds == 1.0
    assert stream.token_events[0].at_seconds == 2.0
    assert stream.first_text_at_seconds == 3.0


def test_cached_tokens_are_unknown_until_said() -> None:
    said = {**usage(1), "prompt_tokens_details": {"cached_tokens": 0}}
    assert read({"choices": [], "usage": usage(1)}).cached_tokens is None
    assert read({"choices": [], "usage": said}).cached_tokens == 0


@pytest.mark.parametrize("junk", [None, "3", -1, 1.5, True])
def test_a_count_that_is_none_stays_unknown(junk: object) -> None:
    assert read({"choices": [], "usage": {"completion_tokens": junk}}).completion_tokens is None


@pytest.mark.parametrize(
    ("event", "detail"),
    [
        pytest.param({"error": {"type": "T", "code": 500, "message": "no"}}, "T: 500: no", id="error object"),
        pytest.param({"error": "no"}, "no", id="error text"),
        pytest.param({"object": "error", "message": "no"}, "no", id="object error"),
        pytest.param({"type": "error", "message": "no"}, "error: no", id="type error"),
        pytest.param({"type": "response.failed", "response": {"error": {"message": "no"}}}, "no", id="response.failed"),
    ],
)
def test_an_error_inside_a_stream_is_one(event: dict[str, Any], detail: str) -> None:
    assert read(chunk({"content": "a"}), event, b"[DONE]").fault == StreamFault("stream_error", detail)


def test_an_event_named_error_is_one() -> None:
    stream = ChatStream()
    stream.read(SseEvent(b'{"message": "no"}', name="error"), 1.0)
    assert stream.fault == StreamFault("stream_error", "no")


@pytest.mark.parametrize("data", [b"{", b"\xff\xfe", b"[1]", b"null", b"[" * 100_000])
def test_what_is_no_json_object_breaks_the_stream(data: bytes) -> None:
    fault = read(chunk({"content": "a"}), data).fault
    assert fault is not None
    assert fault.outcome == "protocol"


@pytest.mark.parametrize(
    ("chunks", "flag"),
    [
        pytest.param([{"choices": None}], "malformed_chunk", id="choices null"),
        pytest.param([{"choices": "x"}], "malformed_chunk", id="choices text"),
        pytest.param([{"choices": [3]}], "malformed_chunk", id="a choice that is a number"),
        pytest.param([{"id": "x"}], "malformed_chunk", id="no choices"),
        pytest.param([{"choices": [{"index": 0, "delta": None}]}], "malformed_chunk", id="delta null"),
        pytest.param([{"choices": [{"index": 1, "delta": {"content": "b"}}]}], "extra_choices", id="index 1"),
        pytest.param([chunk({"content": "a"}, finish="whim")], "finish_reason_unknown", id="finish reason"),
        pytest.param([chunk({"content": "a"}) | {"model": "n"}], "model_mismatch", id="another model"),
        pytest.param([chunk({"tool_calls": [{}]})], "tool_calls", id="tool calls though none asked"),
        pytest.param([b"[DONE]", chunk({"content": "a"})], "data_after_done", id="data after the end"),
        pytest.param(
            [chunk({"content": "a"}, usage=usage(5)), chunk({"content": "b"}, usage=usage(2))],
            "usage_inconsistent",
            id="a count that falls",
        ),
    ],
)
def test_oddities_are_flags(chunks: list[Any], flag: str) -> None:
    stream = read(*chunks)
    assert flag in stream.flags
    assert stream.fault is None


def test_only_choice_zero_counts() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"}]}
    stream = read(other)
    assert (stream.token_events, stream.finish_reason) == ([], None)


def test_kept_text_is_bounded() -> None:
    assert len(read(*[chunk({"content": "x" * 1000})] * 20).text) == 4096
