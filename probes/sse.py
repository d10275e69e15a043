"""Server-sent events from bytes: whatever pieces the network makes of a stream, the same events come out."""

import re
from dataclasses import dataclass, field

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseLimits:
    """How much one stream may make us hold or do; what goes beyond is `oversize`, not a longer wait."""

    event_bytes: int = 1 << 20  # logprobs of 20 candidates and echoed prompts stay far below
    total_bytes: int = 8 << 20
    lines: int = 100_000  # bounds the work: an event takes two lines at least, a keep-alive too


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One dispatched event: its `data` lines joined by LF, not yet decoded.

    `is_truncated` marks a last event whose blank line never came; the specification drops it, we keep it and say so.
    """

    data: bytes
    name: str = ""
    is_truncated: bool = False


@dataclass(slots=True)
class SseParser:
    """Feeds on bytes, gives events. Lines end in CR, LF or CRLF and in nothing else (U+2028 is text).

    Source: WHATWG HTML, section 9.2.6 "Interpreting an event stream".
    """

    limits: SseLimits = field(default_factory=SseLimits)
    is_oversize: bool = False
    comments: int = 0
    total_bytes: int = 0
    _line: bytearray = field(default_factory=bytearray)
    _data: list[bytes] = field(default_factory=list)
    _data_bytes: int = 0
    _name: bytes = b""
    _lines: int = 0
    _skip_lf: bool = False
    _is_first_line: bool = True

    def feed(self, piece: bytes) -> list[SseEvent]:
        """The events that this piece completes, in order; none for ever after the limits were passed."""
        if self.is_oversize or not piece:
            return []
        room = self.limits.total_bytes - self.total_bytes
        self.total_bytes += len(piece)
        events = self._feed_within_limits(piece[:room])
        if len(piece) > room:
            self.is_oversize = True
        return events

    def finish(self) -> list[SseEvent]:
        """The event that the end of the stream cut off, if it had any data: a list of none or one."""
        if self.is_oversize:
            return []
        if self._line:
            self._take_line()
        return [] if self._is_over() or not self._data else [self._dispatch(is_truncated=True)]

    def _is_over(self) -> bool:
        return self.is_oversize

    def _feed_within_limits(self, piece: bytes) -> list[SseEvent]:
        events: list[SseEvent] = []
        start = 1 if self._skip_lf and piece.startswith(b"\n") else 0
        if piece:
            self._skip_lf = False
        for end in _LINE_END.finditer(piece, start):
            self._line += piece[start : end.start()]
            start = end.end()
            self._skip_lf = end.group() == b"\r" and start == len(piece)
            events += self._take_line()
            if self.is_oversize:
                return events
        self._line += piece[start:]
        self.is_oversize = len(self._line) > self.limits.event_bytes
        return events

    def _take_line(self) -> list[SseEvent]:
        line = bytes(self._line)
        self._line.clear()
        self._lines += 1
        if len(line) > self.limits.event_bytes or self._lines > self.limits.lines:
            self.is_oversize = True
            return []
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._take_blank_line()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
            self.is_oversize = self._data_bytes > self.limits.event_bytes + 1
        elif name == b"event":
            self._name = value
        elif not name:
            self.comments += 1
        return []  # `id`, `retry` and unknown fields mean nothing to a single request

    def _take_blank_line(self) -> list[SseEvent]:
        if not self._data:
            self._name = b""
            return []
        return [self._dispatch(is_truncated=False)]

    def _dispatch(self, *, is_truncated: bool) -> SseEvent:
        event = SseEvent(b"\n".join(self._data), self._name.decode("utf-8", "replace"), is_truncated)
        self._data.clear()
        self._data_bytes = 0
        self._name = b""
        return event
