"""Every way a server can fail a chat canary, one row each: the number of the conformance suite, class and verdict."""
# ruff: noqa: E501 - a table reads by its lines

import asyncio
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from nasty_server import (
    DONE,
    FLOOD,
    GOOD,
    GOOD_BODY,
    HANG,
    RESET,
    ROLE,
    TOKENS,
    UNREAD,
    Script,
    chunk,
    event,
    head,
    nasty_server,
    reply,
    token,
    usage,
)

from probes.canary import stamping
from probes.canary.outcomes import OUTCOMES
from probes.canary.prober import run_probe
from probes.canary.task import ProbeTask
from probes.clock import SystemClock

SECRET = "tok-5f3c9a77"
PROMPT = "whisper the plan"
PATIENT = ProbeTask(
    target="t",
    url="",
    model="m",
    token=SECRET,
    prompt=PROMPT,
    max_tokens=4,
    connect_timeout_seconds=5.0,
    first_token_timeout_seconds=5.0,
    stall_timeout_seconds=5.0,
    total_timeout_seconds=10.0,
    planned_at_seconds=1.0,
)
SHORT_SECONDS = 0.08

# What is not simply bad: config faults, and what is a config fault until the target has once answered well.
VERDICTS = {
    "ok": "good",
    "auth": "excluded",
    "proxy_auth": "excluded",
    "bad_request": "excluded",
    "bad_request_length": "excluded",
    "bad_request_size": "excluded",
    "model_not_found": "bad_after_success",
    "not_found": "bad_after_success",
    "redirect": "bad_after_success",
}

CHUNKED = head("200 OK", "text/event-stream", "Transfer-Encoding: chunked")
ERROR = {"error": {"message": "engine died", "type": "InternalServerError", "code": 500}}
HTML = b"<html><body>hello</body></html>"
KEEP_ALIVE = b": keep-alive\n\n"
FINISH = token(4, finish="length")
ALL = b"".join(step for step in GOOD_BODY if isinstance(step, bytes))
TEXT = json.dumps({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}).encode()


def piece(data: bytes) -> bytes:
    """One piece of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def cut(body: bytes, declared: int) -> bytes:
    return head("200 OK", "text/event-stream", f"Content-Length: {declared}") + body


def unsized(*deltas: dict[str, str], finish: str = "stop") -> Script:
    """A good answer of a server that counts no tokens."""
    return (head(), *(chunk(delta) for delta in deltas), chunk({}, finish=finish), DONE)


@dataclass(frozen=True)
class Row:
    """What the server does and what comes of it. `flags` must be among the result's; `short` are the timers to shorten."""

    case: str
    script: Script
    outcome: str
    flags: Sequence[str] = ()
    short: Sequence[str] = ()


# fmt: off
ROWS = [
    Row("04 accept, then reset", (UNREAD, RESET), "connect_reset"),
    Row("04 accept, then close", (UNREAD,), "connect_reset"),
    Row("05 accept, never read", (UNREAD, HANG), "head_timeout", short=["first_token"]),
    Row("08 proxy wants a key", (reply("407 Proxy Authentication Required", {}),), "proxy_auth"),
    Row("09 unauthorized", (reply("401 Unauthorized", {"error": "Unauthorized"}),), "auth"),
    Row("09 forbidden", (reply("403 Forbidden", {"error": "no"}),), "auth"),
    Row("10 model unknown", (reply("404 Not Found", {"error": {"message": "The model `m` does not exist."}}),), "model_not_found"),
    Row("11 path unknown, JSON", (reply("404 Not Found", {"detail": "Not Found"}),), "not_found"),
    Row("11 path unknown, HTML", (head("404 Not Found", "text/html"), HTML), "not_found"),
    Row("12 refuses the request", (reply("400 Bad Request", {"error": {"message": "no such thing"}}),), "bad_request"),
    Row("13 context too long", (reply("400 Bad Request", {"error": {"message": "maximum context length is 8"}}),), "bad_request_length"),
    Row("14 body too large", (head("413 Content Too Large", "text/plain"),), "bad_request_size"),
    Row("15 rate limited", (reply("429 Too Many Requests", {}, "Retry-After: 7"),), "rate_limited"),
    Row("15 rate limited, date", (reply("429 Too Many Requests", {}, "Retry-After: Mon, 1 Jan 2035 00:00:00 GMT"),), "rate_limited"),
    Row("15 rate limited, junk", (reply("429 Too Many Requests", {}, "Retry-After: \xe9\xb2"),), "rate_limited"),
    Row("15 rate limited, for ever", (reply("429 Too Many Requests", {}, "Retry-After: 1000000000"),), "rate_limited"),
    Row("16 engine busy", (reply("503 Service Unavailable", {"error": {"message": "engine is currently busy"}}),), "overloaded"),
    Row("17 loading", (reply("503 Service Unavailable", {"detail": "loading"}),), "unavailable"),
    Row("17 error body never ends", (head("503 Service Unavailable", "text/plain"), b"no", HANG), "unavailable", short=["first_token"]),
    Row("18 server error, JSON", (reply("500 Internal Server Error", ERROR),), "server_error"),
    Row("18 server error, empty", (head("500 Internal Server Error"),), "server_error"),
    Row("19 gateway 502", (head("502 Bad Gateway", "text/html"), HTML), "gateway_error"),
    Row("19 gateway 503", (head("503 Service Unavailable", "text/html"), HTML), "gateway_error"),
    Row("19 gateway 504", (head("504 Gateway Timeout", "text/html"), HTML), "gateway_error"),
    Row("20 redirect 301", (head("301 Moved Permanently", "text/html", "Location: /v1/chat/completions"),), "redirect"),
    Row("20 redirect 307", (head("307 Temporary Redirect", "text/html", "Location: http://elsewhere.example/"),), "redirect"),
    Row("21 no content", (b"HTTP/1.1 204 No Content\r\n\r\n",), "empty_body"),
    Row("21 empty stream", (head(),), "empty_body"),
    Row("21 empty page", (head("200 OK", "text/html"),), "empty_body"),
    Row("22 HTML page", (head("200 OK", "text/html"), HTML), "content_type"),
    Row("23 whole answer", (reply("200 OK", {"choices": [{"message": {"content": "a"}}]}),), "not_streaming"),
    Row("24 events as text/plain", (head("200 OK", "text/plain"), *GOOD_BODY), "ok", ["content_type_mismatch"]),
    Row("24 events as JSON, dribbled", (head("200 OK", "application/json"), ALL[:3], 0.01, ALL[3:]), "ok", ["content_type_mismatch"]),
    Row("25 error first", (head(), event(ERROR), DONE), "stream_error"),
    Row("25 error as JSON, status 200", (reply("200 OK", ERROR),), "stream_error"),
    Row("26 error after tokens", (head(), ROLE, *TOKENS, event(ERROR), DONE), "stream_error"),
    Row("27 event: error", (head(), b'event: error\ndata: {"message": "no"}\n\n'), "stream_error"),
    Row("27 response.failed", (head(), event({"type": "response.failed", "response": {"error": {"message": "no"}}})), "stream_error"),
    Row("28 no head", (HANG,), "head_timeout", short=["first_token"]),
    Row("29 head, no data", (head(), HANG), "first_token_timeout", short=["first_token"]),
    Row("30 keep-alives only", (head(), *([KEEP_ALIVE, 0.02] * 50), HANG), "first_token_timeout", short=["first_token"]),
    Row("31 role, then silence", (head(), ROLE, HANG), "first_token_timeout", short=["first_token"]),
    Row("32 tokens, then silence", (head(), ROLE, token(1), token(2), HANG), "stall_timeout", short=["stall"]),
    Row("33 tokens, keep-alives", (head(), ROLE, token(1), *([KEEP_ALIVE, 0.02] * 50), HANG), "stall_timeout", short=["stall"]),
    Row("34 a byte at a time", (head(), token(1), *(b for c in token(2) for b in (bytes([c]), 0.02))), "stall_timeout", short=["stall"]),
    Row("35 slow, but moving", (head(), *([token(None), 0.03] * 50)), "total_timeout", short=["total"]),
    Row("36 endless tokens", (head(), token(None), FLOOD), "runaway"),
    Row("36 endless tokens, counted", (head(), *(token(n) for n in range(1, 40))), "runaway"),
    Row("37 endless line", (head(), b"data: " + b"x" * 65536, FLOOD), "oversize"),
    Row("37 endless lines without event", (head(), b"data: " + b"x" * 1000 + b"\n", FLOOD), "oversize"),
    Row("37 endless keep-alives at once", (head(), KEEP_ALIVE * 4096, FLOOD), "oversize"),
    Row("37 endless page", (head("200 OK", "text/html"), HTML * 999, FLOOD), "content_type"),
    Row("37 endless error page", (head("500 Internal Server Error"), HTML * 999, FLOOD), "server_error"),
    Row("38 too many events", (head(), b"data: {}\n\n" * 6000, FLOOD), "oversize"),
    Row("39 huge header", (head("200 OK", "text/event-stream", "X: " + "y" * 70000), *GOOD_BODY), "protocol"),
    Row("39 a thousand headers", (head("200 OK", "text/event-stream", *["X: y"] * 1000), *GOOD_BODY), "protocol"),
    Row("39 header never ends", (b"HTTP/1.1 200 OK\r\nX: ", *([b"y", 0.02] * 50), HANG), "head_timeout", short=["first_token"]),
    Row("40 malformed JSON", (head(), ROLE, token(1), b"data: {\n\n", DONE), "protocol"),
    Row("41 choices null, no token", (head(), event({"choices": None}), DONE), "protocol"),
    Row("41 choices text, no token", (head(), event({"choices": "x"}), DONE), "protocol"),
    Row("41 delta null, no token", (head(), chunk(None, finish="stop"), DONE), "protocol"),
    Row("41 choices null, then good", (head(), event({"choices": None}), *GOOD_BODY), "ok", ["malformed_chunk"]),
    Row("42 not UTF-8", (head(), token(1), b'data: {"a": "\xff"}\n\n'), "protocol"),
    Row("42 a character cut in two", (head(), ROLE, b'data: {"choices":[{"delta":{"content":"\xc3', 0.01, b'\xa9"}}]}\n\n', chunk({}, finish="stop"), DONE), "ok"),
    Row("43 CRLF", (head(), *(s.replace(b"\n", b"\r\n") if isinstance(s, bytes) else s for s in GOOD_BODY)), "ok"),
    Row("43 CR", (head(), *(s.replace(b"\n", b"\r") if isinstance(s, bytes) else s for s in GOOD_BODY)), "ok"),
    Row("43 no space, BOM, id, retry", (head(), b"\xef\xbb\xbf" + ALL.replace(b"data: ", b"id: 1\nretry: 5\ndata:")), "ok"),
    Row("43 U+2028 in text", unsized({"content": "a"}, {"content": "b\u2028c"}), "ok"),
    Row("43 a JSON over two lines", (head(), b'data: {"choices":\ndata: [{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n', DONE), "ok"),
    Row("44 no blank line at the end", (head(), ROLE, *TOKENS, usage(4), FINISH.rstrip(b"\n")), "ok", ["truncated_tail", "done_missing"]),
    Row("45 no finish reason", (head(), ROLE, *TOKENS), "truncated"),
    Row("45 done without finish reason", (head(), ROLE, *TOKENS, DONE), "truncated"),
    Row("45 cut inside an event", (head(), ROLE, token(1), token(2)[:-9]), "truncated"),
    Row("46 reset in the middle", (CHUNKED, piece(ROLE), piece(token(1)), 0.01, RESET), "reset_midstream"),
    Row("46 chunked body cut", (CHUNKED, piece(ROLE), piece(token(1))), "reset_midstream"),
    Row("47 Content-Length too long", (cut(ALL, len(ALL) + 100),), "ok", ["lingering"]),
    Row("47 Content-Length too long, cut", (cut(ROLE + token(1), 9999),), "truncated"),
    Row("47 Content-Length too short", (cut(ROLE + token(1) + FINISH, len(ROLE) + 20),), "protocol"),
    Row("47 Content-Length too short, rest later", (cut(ROLE + token(1)[:-20], len(ROLE + token(1)) - 20), 0.02, ALL), "protocol"),
    Row("48 held open after the end", (*GOOD, HANG), "ok", ["lingering"]),
    Row("48 held open without DONE", (*GOOD[:-1], HANG), "ok", ["lingering", "done_missing"], short=["stall"]),
    Row("49 data after DONE", (*GOOD, token(5)), "ok", ["data_after_done"]),
    Row("50 no DONE", GOOD[:-1], "ok", ["done_missing"]),
    Row("51 no usage", unsized({"content": "a"}, {"content": "b"}), "ok", ["usage_missing"]),
    Row("51 usage null", (head(), token(None), token(None, finish="stop"), usage(None), DONE), "ok", ["usage_missing"]),
    Row("51 usage of none", (head(), chunk({"content": "a"}, used=0), chunk({"content": "b"}, used=0, finish="stop"), DONE), "ok", ["usage_inconsistent"]),
    Row("51 usage before the last token", (head(), token(None), usage(1), token(None, finish="stop"), DONE), "ok", ["usage_inconsistent"]),
    Row("51 the same usage in every event", (head(), *[token(3)] * 3, chunk({}, finish="stop", used=3), DONE), "ok", ["usage_inconsistent"]),
    Row("52 no token at all", (head(), ROLE, chunk({}, finish="stop"), usage(0), DONE), "empty_output"),
    Row("53 length, as planned", GOOD, "ok"),
    Row("55 abort", (head(), token(1), chunk({}, finish="abort"), DONE), "aborted"),
    Row("55 error", (head(), token(1), chunk({}, finish="error"), DONE), "aborted"),
    Row("55 content filter", (head(), chunk({}, finish="content_filter"), DONE), "aborted"),
    Row("56 unknown finish reason", unsized({"content": "a"}, finish="whim"), "ok", ["finish_reason_unknown"]),
    Row("57 reasoning only", unsized({"reasoning_content": "hm"}), "ok"),
    Row("58 tool calls", (head(), chunk({"tool_calls": [{"index": 0}]}), chunk({}, finish="tool_calls"), DONE), "ok", ["tool_calls"]),
    Row("59 several choices", (head(), *GOOD_BODY[:-1], event({"choices": [{"index": 1, "delta": {"content": "b"}}]}), DONE), "ok", ["extra_choices"]),
    Row("60 all at once", (head() + ALL,), "ok", ["buffered_stream", "coalesced"]),
    Row("61 gzip, unasked", (head("200 OK", "text/event-stream", "Content-Encoding: gzip"), gzip.compress(ALL)), "ok", ["compressed"]),
    Row("61 gzip, broken", (head("200 OK", "text/event-stream", "Content-Encoding: gzip"), gzip.compress(ALL)[:20] + b"\xff" * 64), "protocol"),
    Row("61 gzip, wrong bytes", (head("200 OK", "text/event-stream", "Content-Encoding: gzip"), gzip.compress(ALL)[:10] + b"\xff" * 64), "protocol"),
    Row("61 unknown coding", (head("200 OK", "text/event-stream", "Content-Encoding: br"), b"\x8b\x02\x80"), "protocol"),
    Row("65 another model", (head(), chunk({"content": "a"}, model="n"), chunk({}, finish="stop"), DONE), "ok", ["model_mismatch"]),
    Row("68 early hints", (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", *GOOD), "ok"),
    Row("68 trailers", (CHUNKED, piece(ALL), b"0\r\nX-Trailer: 1\r\n\r\n"), "ok"),
    Row("69 no HTTP", (b"hello\r\n\r\n",), "protocol"),
    Row("69 HTTP/0.9", (HTML,), "protocol"),
    Row("69 TLS alert", (b"\x15\x03\x03\x00\x02\x02\x28",), "protocol"),
    Row("70 another canary's answer", (head(), *(s.replace(b"chatcmpl-1", b"chatcmpl-slo-canary-0") if isinstance(s, bytes) else s for s in GOOD_BODY)), "protocol"),
    Row("77 secrets echoed", (reply("500 Internal Server Error", {"error": f"Bearer {SECRET} said {PROMPT}"}),), "server_error"),
    Row("77 secrets echoed in a stream", (head(), event({"error": {"message": f"{PROMPT} {SECRET}"}})), "stream_error"),
    Row("77 secrets echoed, no JSON", (head(), b"data: " + f"{SECRET} {PROMPT}".encode() + b"\n\n"), "protocol"),
]
# fmt: on


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.case} => {row.outcome}")
async def test_conformance(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    """One result, of the right class, in time, without a secret, a leaked task or more memory than the limits."""
    short = {f"{name}_timeout_seconds": SHORT_SECONDS for name in row.short}
    tasks_before = asyncio.all_tasks()
    async with nasty_server(row.script) as server:
        task = replace(PATIENT, url=f"http://127.0.0.1:{server.port}", **short)
        result = await asyncio.wait_for(run_probe(task, SystemClock()), task.total_timeout_seconds + 1.0)
        assert server.sent_bytes < 32 << 20
    assert result.outcome == row.outcome, result
    assert set(row.flags) <= set(result.flags), result
    assert OUTCOMES[result.outcome].verdict == VERDICTS.get(row.outcome, "bad"), result
    assert (result.target, result.kind, result.planned_at_seconds) == ("t", "chat", 1.0)
    assert SECRET not in repr(result) + caplog.text
    assert PROMPT not in repr(result) + caplog.text
    assert asyncio.all_tasks() == tasks_before


async def test_rows_are_told_apart_by_their_number() -> None:
    assert len({row.case for row in ROWS}) == len(ROWS)


async def test_what_came_in_one_piece_came_at_one_moment_even_where_a_clock_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wall clock that is set back makes an age senseless; two events with one stamp of the kernel still came together."""
    monkeypatch.setattr(stamping, "LONGEST_AGE_REAL_NS", -1)
    async with nasty_server((head() + ALL,), (head() + ALL,)) as server:
        for _ in range(
            2
        ):  # where nothing else on the machine asks for stamps, the kernel begins with them at the first
            result = await run_probe(replace(PATIENT, url=f"http://127.0.0.1:{server.port}"), SystemClock())
    assert "coalesced" in result.flags
