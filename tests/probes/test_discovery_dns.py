"""SRV records from a name server on the loopback address, and look-ups that hang."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.discovery.dns import DnsTargets
from probes.discovery.file import Found
from probes.discovery.item import DnsDiscovery
from probes.discovery.srv import SrvError, nameservers, read_srv, srv_query

NAME = "_http._tcp.vllm.serving.svc.cluster.local"
ITEM = DnsDiscovery(name=NAME, family="SRV", timeout_seconds=2)
QUERY = srv_query(NAME, 7)
ASKED = b"\xc0\x0c"  # a pointer to the name in the question, at byte 12
TAIL = b"\xc0" + bytes([12 + len("\5_http\4_tcp")])  # to vllm.serving.svc.cluster.local in it


def record(target: bytes, port: int, kind: int = 33) -> bytes:
    """One record of the answer: priority 0, weight 100."""
    data = struct.pack("!3H", 0, 100, port) + target
    return ASKED + struct.pack("!HHIH", kind, 1, 30, len(data)) + data


def reply(query: bytes, *records: bytes, flags: int = 0x8180) -> bytes:
    head = query[:2] + struct.pack("!5H", flags, 1, len(records), 0, 0)
    return head + query[12:] + b"".join(records)


PODS = (record(b"\7decode0" + TAIL, 8000), record(b"\7decode1" + TAIL, 8200))
FOUND = [("decode0.vllm.serving.svc.cluster.local", 8000), ("decode1.vllm.serving.svc.cluster.local", 8200)]


@dataclass(slots=True)
class NameServer(asyncio.DatagramProtocol):
    """What it answers over UDP and over TCP, where it answers; what it was asked."""

    records: tuple[bytes, ...] = PODS
    flags: int = 0x8180
    lost: int = 0  # so many packets get no answer
    is_cut: bool = False  # over UDP
    asked: list[str] = field(default_factory=list)
    port: int = 0
    transport: asyncio.DatagramTransport | None = None

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        self.asked.append("udp")
        assert self.transport is not None
        if len(self.asked) <= self.lost:
            return
        answer = reply(data, flags=self.flags | 0x0200) if self.is_cut else reply(data, *self.records, flags=self.flags)
        self.transport.sendto(b"\0\0forged", address)
        self.transport.sendto(answer, address)

    async def over_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append("tcp")
        (length,) = struct.unpack("!H", await reader.readexactly(2))
        answer = reply(await reader.readexactly(length), *self.records, flags=self.flags)
        writer.write(struct.pack("!H", len(answer)) + answer)
        await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def name_server() -> AsyncIterator[NameServer]:
    server = NameServer()
    async with await asyncio.start_server(server.over_tcp, "127.0.0.1", 0) as listener:
        server.port = listener.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: server, local_addr=("127.0.0.1", server.port))
        server.transport = transport
        try:
            yield server
        finally:
            transport.close()
            await asyncio.sleep(0)  # it closes at the loop's next turn


def source(server: NameServer, folder: Path, item: DnsDiscovery = ITEM) -> DnsTargets:
    file = folder / "resolv.conf"
    file.write_text("search serving.svc.cluster.local\nnameserver 127.0.0.1\noptions ndots:5\n")
    return DnsTargets(item, resolv_conf=file, server_port=server.port)


async def refreshed(targets: DnsTargets) -> tuple[Found, ...]:
    async with aiohttp.ClientSession() as session:
        await targets.refresh(session)
    return targets.look()


async def test_every_record_is_a_target_with_its_own_port(tmp_path: Path) -> None:
    item = ITEM.model_copy(update={"labels": {"role": "decode"}})
    async with name_server() as server:
        targets = source(server, tmp_path, item)
        found = await refreshed(targets)
    assert [one.address for one in found] == [f"{host}:{port}" for host, port in FOUND]
    assert found[1].labels == {
        "name": "decode1.vllm.serving.svc.cluster.local-8200", "kind": "vllm", "role": "decode"
    }  # fmt: skip
    assert (targets.trouble, server.asked) == ("", ["udp"])


async def test_an_answer_that_is_cut_is_asked_for_over_tcp(tmp_path: Path) -> None:
    async with name_server() as server:
        server.is_cut = True
        server.records = tuple(record(b"\5d%04d" % n + TAIL, 8000) for n in range(1500))
        assert len(await refreshed(source(server, tmp_path))) == 1500
    assert server.asked == ["udp", "tcp"]


async def test_a_lost_packet_is_no_outage(tmp_path: Path) -> None:
    async with name_server() as server:
        server.lost = 1
        assert len(await refreshed(source(server, tmp_path))) == 2


async def test_no_records_are_an_answer_and_a_name_that_is_none_is_trouble(tmp_path: Path) -> None:
    async with name_server() as server:
        targets = source(server, tmp_path)
        await refreshed(targets)
        server.flags = 0x8183
        assert len(await refreshed(targets)) == 2
        assert targets.trouble == (
            f"dns {NAME}: the name does not exist. The last good list (2 targets) stays in use."
        )  # fmt: skip
        server.flags, server.records = 0x8180, ()
        assert await refreshed(targets) == ()
        assert targets.trouble == ""


async def test_a_server_that_is_down_or_silent_is_named(tmp_path: Path, unused_tcp_port: int) -> None:
    async with name_server() as server:
        server.lost = 99
        targets = source(server, tmp_path, ITEM.model_copy(update={"timeout_seconds": 0.1}))
        await refreshed(targets)
        assert "no answer from 127.0.0.1" in targets.trouble
        targets.server_port = unused_tcp_port
        await refreshed(targets)
        assert "127.0.0.1: " in targets.trouble
        targets.resolv_conf = tmp_path / "none"
        await refreshed(targets)
        assert "none: No such file" in targets.trouble


def test_the_servers_are_those_of_resolv_conf(tmp_path: Path) -> None:
    """At most three; none is told."""
    file = tmp_path / "resolv.conf"
    file.write_text("# nameserver 9.9.9.9\nnameserver\n" + "".join(f"nameserver 10.0.0.{n}\n" for n in range(1, 6)))
    assert nameservers(file) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    file.write_text("search example\n")
    with pytest.raises(SrvError, match="names no nameserver"):
        nameservers(file)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (reply(QUERY, *PODS)[:-3], "cannot be read"),
        (b"", "cannot be read"),
        (b"\1\1" + reply(QUERY, *PODS)[2:], "not to our question"),
        (QUERY, "not to our question"),
        (reply(QUERY, record(b"\xc0\xff", 1)), "cannot be read|no end"),
        (reply(QUERY, record(b"\1a\xc0" + bytes([len(reply(QUERY)) + 18]), 1)), "no end"),
        (reply(QUERY, record(b"\3a/b\0", 1)), "none that can be asked"),
        (reply(QUERY, flags=0x8185), "refused with code 5"),
    ],
)
def test_an_answer_that_is_none_is_refused(answer: bytes, words: str) -> None:
    with pytest.raises(SrvError, match=words):
        read_srv(QUERY, answer)


def test_other_records_and_no_service_at_all_are_left_out() -> None:
    """A target of the root says: decidedly not here (RFC 2782)."""
    other = record(b"\7decode0" + TAIL, 1, kind=5)
    assert read_srv(QUERY, reply(QUERY, other, record(b"\0", 8000), *PODS)) == FOUND


@given(st.binary(max_size=120), st.integers(0, 9))
def test_whatever_comes_is_read_or_refused(tail: bytes, count: int) -> None:
    head = QUERY[:2] + struct.pack("!5H", 0x8180, 1, count, 0, 0)
    with contextlib.suppress(SrvError):
        assert len(read_srv(QUERY, head + QUERY[12:] + tail) or []) <= count


@pytest.mark.parametrize("name", ["", "a..b", "a" * 64, ".".join(["a" * 60] * 5), "a b"])
def test_what_is_no_name_is_not_asked(name: str) -> None:
    with pytest.raises(SrvError, match="no name of DNS"):
        srv_query(name, 1)


async def test_a_look_up_that_hangs_holds_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has one thread, however often it is looked at; asyncio's own threads, which scrapes use, stay free."""
    let_go, asked = threading.Event(), []
    truly = socket.getaddrinfo

    def hangs(host: str, *rest: object, **options: object) -> object:
        if host == "slow.example":
            asked.append(host)
            let_go.wait(20)
        return truly("127.0.0.1", *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    targets = DnsTargets(DnsDiscovery(name="slow.example", port=8000, timeout_seconds=0.02))
    for _ in range(50):
        await refreshed(targets)
    assert asked == ["slow.example"]
    assert "no answer within 0.02 s" in targets.trouble
    assert await asyncio.wait_for(asyncio.get_running_loop().getaddrinfo("fast.example", 80), 5)
    let_go.set()
    found = await refreshed(targets)
    while not found:  # until the thread has ended
        found = await refreshed(targets)
    assert [one.address for one in found] == ["127.0.0.1:8000"]
