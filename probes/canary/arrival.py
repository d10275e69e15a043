"""When bytes came, by the kernel: a loop that was away when they came does not move their time stamp."""

import functools
import itertools
import re
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any, Final

from probes.canary.lag import LagMonitor

# Linux: sockets stamp what they receive on request; for TCP it is the time of the last segment that a read took.
_SO_TIMESTAMPNS: Final = 35
_TIMESPEC: Final = struct.Struct("@ll")
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
_EVENT_END: Final = re.compile(rb"\n\n|\r\n\r\n|\r\r")
_MOST_APART: Final = 8  # more events than these that wait together are no stream that is worth the work
_LOOKED_AT_BYTES: Final = 16 << 10


@dataclass(slots=True)
class Arrivals:
    """What the kernel says of the bytes read from one connection. Unix nanoseconds, as its stamps are.

    `stamped_at_ns` is when the last of them came, None where the kernel does not say. What was read last came after
    `after_ns`, as the socket was empty then, and what was read since the last look at it after `first_after_ns`.
    `addresses` are those that were tried, in order; `written_bytes` is how much of what we send the kernel has taken,
    the last of it within `sent_between_ns` (of time.perf_counter_ns).
    """

    lag: LagMonitor | None = None
    stamped_at_ns: int | None = None
    after_ns: int = 0
    first_after_ns: int | None = None
    addresses: list[str] = field(default_factory=list)
    written_bytes: int = 0
    sent_between_ns: tuple[int, int] | None = None

    def take_after_ns(self) -> int:
        """After when everything came that was read since the last call: it may be handed on as one piece."""
        first, self.first_after_ns = self.first_after_ns, None
        return self.after_ns if first is None else first

    def make_socket(self, address: tuple[Any, ...]) -> socket.socket:
        """A socket for an entry of getaddrinfo, which keeps its stamps here; for aiohttp's `socket_factory`."""
        family, kind, protocol, _, place = address
        self.addresses.append(str(place[0]))
        made = _StampedSocket(family=family, type=kind, proto=protocol)
        made.arrivals, made.empty_at_ns = self, time.time_ns()
        made.setblocking(False)  # noqa: FBT003 - the name of the argument is its method's
        try:
            made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            _keep_stamping()
        except OSError:
            made.arrivals = None  # not Linux
        return made


@functools.cache
def _keep_stamping() -> None:
    """The kernel begins to stamp a moment after some socket asks for it, and ends with the last one that did: what
    comes in that moment has no stamp. So one of this process asks for as long as it lives.
    """
    keeper = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    keeper.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    keeper.detach()


class _StampedSocket(socket.socket):
    """A socket that asks for the time stamp with every read; asyncio reads it as any other."""

    arrivals: Arrivals | None = None
    empty_at_ns: int | None = None  # when it was last seen empty; None: the last read left something in it

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Every byte to the server goes through here, or through `sendmsg`."""
        before_ns = time.perf_counter_ns()
        count = super().send(data, flags)
        self._note_sent(count, before_ns)
        return count

    def sendmsg(self, buffers: Any, /, *arguments: Any) -> int:
        """What several buffers are written with, from Python 3.12 on."""
        before_ns = time.perf_counter_ns()
        count = super().sendmsg(buffers, *arguments)
        self._note_sent(count, before_ns)
        return count

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Plain connections are read so: one event at a time, so that each has the stamp of its own last segment."""
        if self.arrivals is None:
            return super().recv(size, flags)
        looked_at_ns = time.time_ns()
        waiting = super().recv(min(size, _LOOKED_AT_BYTES), flags | socket.MSG_PEEK)
        ends = [end.end() for end in itertools.islice(_EVENT_END.finditer(waiting), _MOST_APART + 1)]
        if 0 < len(ends) <= _MOST_APART:
            size = ends[0]  # what is left makes the socket readable again
        data, ancillary, _, _ = self.recvmsg(size, _ANCILLARY_BYTES, flags)
        is_all = len(waiting) <= len(data) and len(waiting) < _LOOKED_AT_BYTES
        if data:  # the end of the stream has no stamp
            self._keep(ancillary, looked_at_ns if is_all else None)
        return data

    def recv_into(self, buffer: Any, size: int = 0, flags: int = 0) -> int:
        """TLS connections are read so."""
        if self.arrivals is None:
            return super().recv_into(buffer, size, flags)
        looked_at_ns = time.time_ns()
        room = memoryview(buffer)[:size] if size else memoryview(buffer)
        count, ancillary, _, _ = self.recvmsg_into([room], _ANCILLARY_BYTES, flags)
        if count:
            self._keep(ancillary, looked_at_ns if count < len(room) else None)
        return count

    def _note_sent(self, count: int, before_ns: int) -> None:
        if self.arrivals is not None:
            self.arrivals.written_bytes += count
            self.arrivals.sent_between_ns = before_ns, time.perf_counter_ns()

    def _keep(self, ancillary: list[tuple[int, int, bytes]], empty_at_ns: int | None) -> None:
        """What was left over came before now as well: then nothing later than at the read before is known of it."""
        arrivals = self.arrivals
        if arrivals is None:
            return
        if self.empty_at_ns is not None:
            arrivals.after_ns = max(self.empty_at_ns, arrivals.lag.read_until_ns if arrivals.lag is not None else 0)
        self.empty_at_ns, arrivals.stamped_at_ns = empty_at_ns, None
        if arrivals.first_after_ns is None:
            arrivals.first_after_ns = arrivals.after_ns
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                seconds, nanoseconds = _TIMESPEC.unpack_from(data)
                arrivals.stamped_at_ns = seconds * 1_000_000_000 + nanoseconds
