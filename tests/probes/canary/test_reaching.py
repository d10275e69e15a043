"""What can go wrong before a server says a word: names, connections, certificates."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from nasty_server import GOOD, HANG, UNREAD, Script, nasty_server

from probes.canary.prober import Prober
from probes.canary.task import ProbeTask
from probes.canary.transport import Transport, tls_context
from probes.clock import SystemClock
from probes.sample import ProbeResult

CERTS = Path(__file__).parent / "certs"  # made for these tests; their keys guard nothing
TASK = ProbeTask(target="t", url="", model="m", max_tokens=4)
HURRIED = replace(TASK, connect_timeout_seconds=0.08)


class FakeNames(AbstractResolver):
    """A name service that fails in one way, or never answers."""

    def __init__(self, error: OSError | None) -> None:
        self.error = error

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if self.error is not None:
            raise self.error
        await asyncio.sleep(3600)
        return []

    async def close(self) -> None:
        pass


async def probed(task: ProbeTask, transport: Transport | None = None) -> ProbeResult:
    return await Prober(SystemClock(), transport or Transport()).probe(task)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "dns_nxdomain"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), "dns_error"),
        (None, "dns_timeout"),
    ],
)
async def test_01_names(error: OSError | None, outcome: str) -> None:
    result = await probed(replace(HURRIED, url="http://vllm.example:8000"), Transport(resolver=FakeNames(error)))
    assert result.outcome == outcome


async def test_02_nothing_listens(unused_tcp_port: int) -> None:
    result = await probed(replace(TASK, url=f"http://127.0.0.1:{unused_tcp_port}"))
    assert result.outcome == "connect_refused"
    assert result.ttft_seconds is None
    assert result.timing_error_seconds is None


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """A port whose queue of new connections is full: the kernel drops every further SYN."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            client = sockets.enter_context(socket.socket())
            client.setblocking(False)  # noqa: FBT003 - the name of the argument is its method's
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


async def test_03_connections_are_dropped() -> None:
    """The connect timer ends it, not the total."""
    with full_backlog() as port:
        result = await probed(replace(HURRIED, url=f"http://127.0.0.1:{port}"))
    assert result.outcome == "connect_timeout"


@contextlib.asynccontextmanager
async def deaf_server() -> AsyncIterator[int]:
    """A port whose connections are taken, and never read: the window closes when the kernel's buffers are full."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


@pytest.mark.parametrize(("prompt_tokens", "outcome"), [(64, "head_timeout"), (1_500_000, "write_timeout")])
async def test_05_a_request_that_is_not_read(prompt_tokens: int, outcome: str) -> None:
    """A short one fits into the kernel's buffers, and then no head comes; a long one is not even taken."""
    async with deaf_server() as port:
        task = replace(TASK, url=f"http://127.0.0.1:{port}", kind="long_prompt", prompt_tokens=prompt_tokens)
        result = await probed(replace(task, first_token_timeout_seconds=0.5))
    assert result.outcome == outcome


class TwoAddresses(AbstractResolver):
    """A name with a dead address before a living one, of either family."""

    def __init__(self, dead: str, port: int) -> None:
        self.dead, self.port = dead, port

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        def entry(address: str, at: int) -> ResolveResult:
            of = socket.AF_INET6 if ":" in address else socket.AF_INET
            return {"hostname": host, "host": address, "port": at, "family": of, "proto": 0, "flags": 0}

        return [entry(self.dead, self.port), entry("127.0.0.1", self.port)]

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("dead", ["127.0.0.2", "::1"])
async def test_76_one_address_of_two_is_dead(dead: str) -> None:
    """Users get an answer, a little later; that one address does not connect is told all the same."""
    async with nasty_server(GOOD) as server:
        task = replace(TASK, url=f"http://vllm.example:{server.port}")
        result = await probed(task, Transport(resolver=TwoAddresses(dead, server.port)))
        alone = await probed(replace(TASK, url=f"http://127.0.0.1:{server.port}"))
    assert (result.outcome, "address_failed" in result.flags) == ("ok", True)
    assert "address_failed" not in alone.flags


async def test_67_no_idle_connection_can_be_stale() -> None:
    """Every canary has a connection of its own: a server that closes idle ones is no fault."""
    prober = Prober(SystemClock())
    async with nasty_server(GOOD) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}")
        assert [(await prober.probe(task)).outcome for _ in range(2)] == ["ok", "ok"]
    assert server.connections == 2


def server_context(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / name)
    return context


TRUSTING = Transport(tls=tls_context((CERTS / "ca.pem").read_text()))


@pytest.mark.parametrize(
    ("certificate", "transport", "outcome"),
    [
        ("good.pem", TRUSTING, "ok"),
        ("expired.pem", TRUSTING, "tls_expired"),
        ("other_host.pem", TRUSTING, "tls_hostname"),
        ("good.pem", Transport(), "tls_untrusted"),
    ],
)
async def test_06_certificates(certificate: str, transport: Transport, outcome: str) -> None:
    async with nasty_server(GOOD, tls=server_context(certificate)) as server:
        result = await probed(replace(TASK, url=f"https://127.0.0.1:{server.port}"), transport)
    assert result.outcome == outcome


@pytest.mark.parametrize(
    ("script", "outcome"),
    [((UNREAD, HANG), "tls_timeout"), ((UNREAD, b"HTTP/1.1 400 Bad Request\r\n\r\n"), "tls_protocol")],
)
async def test_06_handshakes(script: Script, outcome: str) -> None:
    hurry = 0.08 if HANG in script else 5.0
    async with nasty_server(script) as server:
        task = replace(TASK, url=f"https://127.0.0.1:{server.port}", connect_timeout_seconds=hurry)
        assert (await probed(task)).outcome == outcome


async def test_07_a_client_certificate_is_wanted() -> None:
    """The server says so with an alert once the handshake is over, as TLS 1.3 has it."""
    context = server_context("good.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(CERTS / "ca.pem")

    def refuse(listener: socket.socket) -> None:
        """asyncio would close without the alert; to close with the request unread would be a reset, which eats it."""
        connection, _ = listener.accept()
        with context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False) as server:
            with contextlib.suppress(ssl.SSLError):
                server.do_handshake()
            with contextlib.suppress(ConnectionError):
                while os.read(server.fileno(), 65_536):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        refusing = asyncio.create_task(asyncio.to_thread(refuse, listener))
        result = await probed(replace(TASK, url=f"https://127.0.0.1:{listener.getsockname()[1]}"), TRUSTING)
        await refusing
    assert result.outcome == "tls_client_cert"


async def test_phases_of_a_tls_request() -> None:
    """An address needs no name service; TCP, TLS and the head each took some time."""
    async with nasty_server(GOOD, tls=server_context("good.pem")) as server:
        phases = (await probed(replace(TASK, url=f"https://127.0.0.1:{server.port}"), TRUSTING)).phases
    assert phases["dns"] is None
    assert all((phases[name] or 0.0) > 0.0 for name in ("connect", "tls", "headers"))


async def test_phases_of_a_plain_request_to_a_name() -> None:
    async with nasty_server(GOOD) as server:
        phases = (await probed(replace(TASK, url=f"http://localhost:{server.port}"))).phases
    assert phases["tls"] is None
    assert all((phases[name] or 0.0) > 0.0 for name in ("dns", "connect", "headers"))


@pytest.mark.parametrize(
    "url", ["", "vllm:8000", "ftp://vllm", "http://", "http://h:99999", "http://[::1", "http://h:x"]
)
async def test_a_url_that_cannot_be_used(url: str) -> None:
    assert (await probed(replace(TASK, url=url))).outcome == "invalid_url"
