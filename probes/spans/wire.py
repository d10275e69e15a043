"""The outer shape of an export, walked without building it: two bytes on the wire can become 200 in memory.

Only the three layers around a span are walked here; spans and resources are parsed by the protobuf library.
The format: protobuf.dev/programming-guides/encoding; the field numbers: opentelemetry/proto/trace/v1/trace.proto.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

RESOURCE_SPANS: Final = 1  # of ExportTraceServiceRequest
RESOURCE: Final = 1  # of ResourceSpans
SCOPE_SPANS: Final = 2  # of ResourceSpans
SPANS: Final = 2  # of ScopeSpans

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES: Final = 10
_CHECKED_FIELDS: Final = 1000


class WireError(ValueError):
    """Bytes that are no protobuf message."""


class TooManyFieldsError(Exception):
    """More fields than the budget: reading on would take too long."""


@dataclass(slots=True)
class Walk:
    """One reading of one body, over at most `fields_left` fields of all layers: a body can hold millions."""

    fields_left: int

    def fields(self, message: memoryview) -> Iterator[tuple[int, memoryview]]:
        """As `fields`. Raises TooManyFieldsError as well."""
        for field in fields(message):
            if self.fields_left <= 0:
                raise TooManyFieldsError
            self.fields_left -= 1
            yield field


def fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The number and the bytes of each field of this layer, in order, nothing copied (b"" for plain numbers).

    Raises WireError where the bytes end too early or are none of proto3's four wire types.
    """
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise WireError("field number 0")
        size, at = _size(message, at, kind)
        if size > end - at:
            raise WireError("the message ends within a field")
        yield number, message[at : at + size] if kind == _LENGTH else message[:0]
        at += size


def check_export(body: bytes) -> None:
    """A first look while the sender still waits: text, JSON and cut bodies raise WireError. Bounded in time."""
    for count, _ in enumerate(fields(memoryview(body))):
        if count >= _CHECKED_FIELDS:
            return


def _size(message: memoryview, at: int, kind: int) -> tuple[int, int]:
    """How many bytes the field's content takes, and where it begins."""
    if kind == _VARINT:
        return 0, _varint(message, at)[1]
    if kind == _LENGTH:
        return _varint(message, at)
    if kind in (_FIXED64, _FIXED32):
        return (8 if kind == _FIXED64 else 4), at
    raise WireError(f"wire type {kind}")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(message[at : at + _VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise WireError("a number without end")
