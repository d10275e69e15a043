"""Reading the body of a 200: event stream or not, piece by piece, stamped as it comes, never more than the limits."""

import asyncio
from dataclasses import dataclass, field
from typing import Final, Literal

import aiohttp

from probes.canary.failure import failure_of_body
from probes.canary.stamping import Stamper
from probes.canary.timers import Timers
from probes.sse import SseLimits, SseParser
from probes.stream import ABORTED_FINISH_REASONS, ChatStream, StreamFault

# How long the end of the connection may come after [DONE]; the machine's time, as closing is the machine's work.
LINGER_REAL_SECONDS: Final = 0.25
_SLICE_BYTES: Final = 8 << 10  # parsed between two looks at the other probes of this process
_OTHER_BODY_BYTES: Final = 64 << 10
_FIELDS: Final = (b"data:", b"event:", b"retry:", b"id:", b":")
_BOM: Final = b"\xef\xbb\xbf"

_BodyKind = Literal["unknown", "events", "other"]


@dataclass(slots=True)
class ChatAnswer:
    """The body of one streamed completion. `read` may be cut short at any time; `conclude` judges what is there."""

    stamper: Stamper
    stream: ChatStream
    max_tokens: int
    stall_timeout_seconds: float
    limits: SseLimits = field(default_factory=SseLimits)
    fault: StreamFault | None = None
    _kind: _BodyKind = "unknown"
    _head: bytearray = field(default_factory=bytearray)
    _parser: SseParser = field(init=False)

    def __post_init__(self) -> None:
        self._parser = SseParser(self.limits)

    async def read(self, response: aiohttp.ClientResponse, timers: Timers) -> None:
        """Read until the end or the first fault. A piece is stamped before it is parsed; its events share the stamp."""
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            self.stream.flags["compressed"] = None
        self.stamper.arrivals.take_after_ns()  # that of the head
        while not self._is_over():
            piece = await response.content.readany()
            at_seconds = self.stamper.stamp() if piece else self.stamper.clock.monotonic_seconds()
            if not piece:
                self._end(response, at_seconds)
                return
            if self._kind != "events":
                piece = self._sniff(piece, response.content_type)
            for start in range(0, len(piece), _SLICE_BYTES):
                if start:
                    await asyncio.sleep(0)
                self._take_events(piece[start : start + _SLICE_BYTES], at_seconds, timers)

    def conclude(self, cut_short: StreamFault | None) -> StreamFault | None:
        """Why this is no good answer, None when it is one. `cut_short` is what ended the reading from outside."""
        fault = self.fault or self.stream.fault
        if fault is None and cut_short is not None and not self._is_only_lingering(cut_short):
            fault = cut_short
        if fault is None:
            fault = self._fault_of_the_end()
        if fault is None and not self.stream.is_done:
            self.stream.flags["done_missing"] = None
        return fault

    def _fault_of_the_end(self) -> StreamFault | None:
        """A good end has a finish reason of its own accord, and tokens before it."""
        stream = self.stream
        if not stream.token_events and "malformed_chunk" in stream.flags:
            return StreamFault("protocol", "no event has choices with a delta")
        if stream.finish_reason is None:
            return StreamFault("truncated", f"ended after {len(stream.token_events)} token events, no finish reason")
        if stream.finish_reason in ABORTED_FINISH_REASONS:
            return StreamFault("aborted", f"finish reason {stream.finish_reason}")
        if not stream.token_events:
            return StreamFault("empty_output", f"finish reason {stream.finish_reason} without one token")
        return None

    def _is_only_lingering(self, cut_short: StreamFault) -> bool:
        """The answer was complete, only the connection was not closed in time, or not cleanly."""
        is_complete = self.stream.is_done or (
            self.stream.finish_reason is not None and cut_short.outcome == "stall_timeout"
        )
        if is_complete:
            self.stream.flags["lingering"] = None
        return is_complete

    def _is_over(self) -> bool:
        return self.fault is not None or self.stream.fault is not None

    def _sniff(self, piece: bytes, content_type: str) -> bytes:
        """Held back until the kind of the body shows; then, if it is events, all that was held."""
        self._head += piece
        if self._kind == "unknown":
            self._kind = _body_kind(bytes(self._head), content_type)
        if self._kind == "events":
            if content_type != "text/event-stream":
                self.stream.flags["content_type_mismatch"] = None
            return bytes(self._head)
        if len(self._head) > _OTHER_BODY_BYTES:
            self.fault = failure_of_body(content_type, bytes(self._head))
        return b""

    def _take_events(self, piece: bytes, at_seconds: float, timers: Timers) -> None:
        stream = self.stream
        for event in self._parser.feed(piece):
            tokens_before, was_done = len(stream.token_events), stream.is_done
            if stream.token_events and stream.token_events[-1].at_seconds == at_seconds:
                self.stamper.share()
            stream.read(event, at_seconds)
            if len(stream.token_events) > tokens_before:
                timers.begin("stall_timeout", self.stall_timeout_seconds)
            if stream.is_done and not was_done:
                timers.begin("stall_timeout", LINGER_REAL_SECONDS / self.stamper.clock.real_seconds(1.0))
            if stream.tokens_seen >= 2 * self.max_tokens:
                self.fault = StreamFault("runaway", f"{stream.tokens_seen} tokens, {self.max_tokens} were asked for")
            if self._is_over():
                return
        if self._parser.is_oversize:
            self.fault = StreamFault("oversize", f"gave up after {self._parser.total_bytes} bytes")

    def _end(self, response: aiohttp.ClientResponse, at_seconds: float) -> None:
        if self._kind != "events":
            self.fault = failure_of_body(response.content_type, bytes(self._head))
            if self.fault.outcome == "empty_body" and "compressed" in self.stream.flags:
                self.fault = StreamFault("protocol", "a compressed body, though none was asked for, that is cut short")
            return
        for event in self._parser.finish():
            self.stream.read(event, at_seconds)
        fault = self.stream.fault
        if fault is not None and fault.outcome == "truncated" and "Content-Length" in response.headers:
            self.fault = StreamFault("protocol", f"Content-Length ends inside an event; {fault.detail}")


def _body_kind(head: bytes, content_type: str) -> _BodyKind:
    if content_type == "text/event-stream":
        return "events"
    start = head.removeprefix(_BOM).lstrip(b"\r\n")
    if start.startswith(_FIELDS):
        return "events"
    return "unknown" if any(name.startswith(start) for name in _FIELDS) else "other"
