"""When bytes came, by the kernel: a loop that was away when they came does not move their time stamp."""

import itertools
import re
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any, Final

# Linux: sockets stamp what they receive on request; for TCP it is the time of the last segment that a read took.
_SO_TIMESTAMPNS: Final = 35
_TIMESPEC: Final = struct.Struct("@ll")
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
# An age beyond this, or below zero, is a wall clock that was set meanwhile: kernel stamps are its time.
_LONGEST_AGE_REAL_SECONDS: Final = 10.0


_EVENT_END: Final = re.compile(rb"\n\n|\r\n\r\n|\r\r")
_MOST_APART: Final = 8  # more events than these that wait together are no stream that is worth the work
_LOOKED_AT_BYTES: Final = 16 << 10


@dataclass(slots=True)
class Arrivals:
    """What the kernel says of the bytes read from one connection since they were last asked for. Unix nanoseconds.

    `addresses` are those that were tried, in order; `written_bytes` is how much of what we send the kernel has taken.
    """

    stamped_at_ns: int | None = None
    first_stamped_at_ns: int | None = None
    addresses: list[str] = field(default_factory=list)
    written_bytes: int = 0

    def age_real_seconds(self) -> float | None:
        """How long ago they came, the machine's seconds; None where the kernel does not say."""
        if self.stamped_at_ns is None:
            return None
        age = (time.time_ns() - self.stamped_at_ns) / 1e9
        return age if 0.0 <= age <= _LONGEST_AGE_REAL_SECONDS else None

    def take_spread_real_seconds(self) -> float:
        """How far apart the reads since the last call lay: they may be handed on as one piece."""
        first, self.first_stamped_at_ns = self.first_stamped_at_ns, None
        return 0.0 if first is None or self.stamped_at_ns is None else max(0.0, (self.stamped_at_ns - first) / 1e9)

    def make_socket(self, address: tuple[Any, ...]) -> socket.socket:
        """A socket for an entry of getaddrinfo, which keeps its stamps here; for aiohttp's `socket_factory`."""
        family, kind, protocol, _, place = address
        self.addresses.append(str(place[0]))
        made = _StampedSocket(family=family, type=kind, proto=protocol)
        made.arrivals = self
        made.setblocking(False)  # noqa: FBT003 - the name of the argument is its method's
        try:
            made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        except OSError:
            made.arrivals = None  # not Linux
        return made


class _StampedSocket(socket.socket):
    """A socket that asks for the time stamp with every read; asyncio reads it as any other."""

    arrivals: Arrivals | None = None

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Every byte to the server goes through here."""
        count = super().send(data, flags)
        if self.arrivals is not None:
            self.arrivals.written_bytes += count
        return count

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Plain connections are read so: one event at a time, so that each has the stamp of its own last segment."""
        if self.arrivals is None:
            return super().recv(size, flags)
        waiting = super().recv(min(size, _LOOKED_AT_BYTES), flags | socket.MSG_PEEK)
        ends = [end.end() for end in itertools.islice(_EVENT_END.finditer(waiting), _MOST_APART + 1)]
        if 0 < len(ends) <= _MOST_APART:
            size = ends[0]  # what is left makes the socket readable again
        data, ancillary, _, _ = self.recvmsg(size, _ANCILLARY_BYTES, flags)
        self._keep(ancillary)
        return data

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0) -> int:
        """TLS connections are read so."""
        if self.arrivals is None:
            return super().recv_into(buffer, size, flags)
        room = memoryview(buffer)[:size] if size else memoryview(buffer)
        count, ancillary, _, _ = self.recvmsg_into([room], _ANCILLARY_BYTES, flags)
        self._keep(ancillary)
        return count

    def _keep(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS) and self.arrivals is not None:
                seconds, nanoseconds = _TIMESPEC.unpack_from(data)
                self.arrivals.stamped_at_ns = seconds * 1_000_000_000 + nanoseconds
                if self.arrivals.first_stamped_at_ns is None:
                    self.arrivals.first_stamped_at_ns = self.arrivals.stamped_at_ns
