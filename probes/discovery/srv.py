"""SRV records of a name, asked of the name servers in /etc/resolv.conf: UDP, and TCP where the answer is too long.

Sources: RFC 1035 (message, names, truncation), RFC 2782 (SRV), resolv.conf(5). Of resolv.conf only `nameserver` is
heeded: no search list, so the name is the full one. Priority and weight are not heeded: every server is a target.
"""

import asyncio
import re
import secrets
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

RESOLV_CONF: Final = Path("/etc/resolv.conf")
MAX_SERVERS: Final = 3  # MAXNS of resolv.conf(5)
ATTEMPTS: Final = 2  # a lost packet is no outage
SRV, INTERNET = 33, 1
RESPONSE, TRUNCATED, RCODE = 0x8000, 0x0200, 0x000F
NXDOMAIN: Final = 3
LABEL = re.compile(r"[A-Za-z0-9_-]{1,63}")
MAX_NAME_BYTES: Final = 255


class SrvError(Exception):
    """No server gave an answer that can be used; its words are for people."""


def nameservers(file: Path) -> list[str]:
    """The addresses behind `nameserver`, at most three. Raises SrvError where there are none."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise SrvError(f"{file}: {error.strerror}") from None
    words = [line.split() for line in lines]
    found = [line[1] for line in words if len(line) > 1 and line[0] == "nameserver"][:MAX_SERVERS]
    if not found:
        raise SrvError(f"{file} names no nameserver")
    return found


async def srv_records(
    name: str, servers: Sequence[str], timeout_seconds: float, port: int = 53
) -> list[tuple[str, int]]:
    """(host, port) of every record, sorted, each once; none is an answer too. Servers are asked in turn, each twice.

    Raises SrvError when none answers within the time, the name does not exist or the answer is no answer.
    """
    query = srv_query(name, secrets.randbelow(1 << 16))
    share, trouble = timeout_seconds / (ATTEMPTS * len(servers)), ""
    for server in [*servers] * ATTEMPTS:
        try:
            async with asyncio.timeout(share):
                answer = await _over_udp(query, server, port)
                records = read_srv(query, answer)
                if records is None:
                    records = read_srv(query, await _over_tcp(query, server, port))
        except TimeoutError:
            trouble = f"no answer from {server}"
        except (OSError, EOFError) as error:
            trouble = f"{server}: {getattr(error, 'strerror', None) or 'the answer broke off'}"
        else:
            if records is not None:
                return sorted(set(records))
            trouble = f"{server}: its answer over TCP is cut, too"
    raise SrvError(trouble)


def srv_query(name: str, number: int) -> bytes:
    """The question for the SRV records of a name, recursion desired. Raises SrvError for what is no name."""
    labels = name.removesuffix(".").split(".")
    if not all(LABEL.fullmatch(label) for label in labels) or len(name) > MAX_NAME_BYTES - 2:
        raise SrvError(f"{name!r} is no name of DNS")
    packed = b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"
    return struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + packed + struct.pack("!2H", SRV, INTERNET)


def read_srv(query: bytes, answer: bytes) -> list[tuple[str, int]] | None:
    """(host, port) of the SRV records in an answer; None where it is cut and TCP is to be asked.

    Bounded by the answer's own length. Raises SrvError for a refusal, and for what is no answer to the query.
    """
    try:
        number, flags, questions, answers, _, _ = struct.unpack_from("!6H", answer)
        if number != struct.unpack_from("!H", query)[0] or not flags & RESPONSE or questions != 1:
            raise SrvError("the answer is not to our question")
        if flags & RCODE:
            said = "the name does not exist" if flags & RCODE == NXDOMAIN else f"refused with code {flags & RCODE}"
            raise SrvError(said)
        if flags & TRUNCATED:
            return None
        return list(_records(answer, _after_name(answer, 12) + 4, answers))
    except (struct.error, IndexError, UnicodeDecodeError):
        raise SrvError("the answer cannot be read") from None


def _records(answer: bytes, at: int, count: int) -> Iterator[tuple[str, int]]:
    for _ in range(count):
        at = _after_name(answer, at)
        kind, family, _, length = struct.unpack_from("!HHIH", answer, at)
        at += 10
        if at + length > len(answer):
            raise IndexError
        if (kind, family) == (SRV, INTERNET):
            port = struct.unpack_from("!H", answer, at + 4)[0]
            host = _name(answer, at + 6)
            if host and port:  # the root as target: decidedly no service here (RFC 2782)
                yield host, port
        at += length


def _after_name(answer: bytes, at: int) -> int:
    """Where what follows a name begins; a pointer ends it."""
    while length := answer[at]:
        if length >= 0xC0:
            return at + 2
        at += 1 + length
    return at + 1


def _name(answer: bytes, at: int) -> str:
    """The name that stands there. A pointer must lead back, so that names end; raises SrvError for odd ones."""
    labels: list[str] = []
    begin = at
    while length := answer[at]:
        if length >= 0xC0:
            at = (length & 0x3F) << 8 | answer[at + 1]
            if at >= begin:
                raise SrvError("a name in the answer has no end")
            begin = at
            continue
        label = answer[at + 1 : at + 1 + length].decode("ascii")
        labels.append(label)
        if not LABEL.fullmatch(label) or sum(map(len, labels)) + len(labels) > MAX_NAME_BYTES:
            raise SrvError("a name in the answer is none that can be asked")
        at += 1 + length
    return ".".join(labels)


class _Udp(asyncio.DatagramProtocol):
    """Waits for the datagram that carries the question's number: others are late ones, or forged."""

    def __init__(self, query: bytes) -> None:
        self._query = query
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, _address: object) -> None:
        if data[:2] == self._query[:2] and not self.answer.done():
            self.answer.set_result(data)

    def error_received(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


async def _over_udp(query: bytes, server: str, port: int) -> bytes:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(lambda: _Udp(query), remote_addr=(server, port))
    try:
        transport.sendto(query)
        return await protocol.answer
    finally:
        transport.close()


async def _over_tcp(query: bytes, server: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(server, port)
    try:
        writer.write(struct.pack("!H", len(query)) + query)
        await writer.drain()
        (length,) = struct.unpack("!H", await reader.readexactly(2))
        return await reader.readexactly(length)
    finally:
        writer.close()
