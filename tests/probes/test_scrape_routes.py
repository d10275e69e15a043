"""A page behind TLS that asks for our certificate, or behind a proxy: reached as the canaries reach the target."""

import asyncio
import contextlib
import shutil
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
from raw_server import page, raw_server, sends

from agent.config import Config
from agent.planning import page_target
from probes.clock import SystemClock
from probes.sample import Reading
from probes.scrape import Scraper

CERTS = Path(__file__).parent / "canary/certs"  # made for these tests; their keys guard nothing
METRICS = page(b'vllm:generation_tokens_total{engine="0",model_name="m"} 7\n')
PASSWORD = "pw-51c3e0"


def asking_for_a_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "good.pem")
    context.load_verify_locations(CERTS / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def read(url: str, **auth: object) -> Reading:
    """One look at the page of a target whose config has this auth, as the agent does it."""
    config = Config.model_validate({"targets": [{"name": "t", "url": url, "auth": auth or None}]})
    async with aiohttp.ClientSession(trust_env=False) as session:
        return (await Scraper(page_target(config, config.targets[0]), session, SystemClock()).scrape()).reading


async def test_a_server_that_demands_a_certificate_gets_ours() -> None:
    async with raw_server(METRICS, tls=asking_for_a_certificate()) as server:
        url = server.url.replace("http:", "https:")
        shown = await read(url, ca_file=CERTS / "ca.pem", client_cert_file=CERTS / "good.pem")
        assert (shown.outcome, [sample.value for sample in shown.samples]) == ("ok", [7.0])
        assert (await read(url, ca_file=CERTS / "ca.pem")).outcome != "ok"
    assert len(server.asked) == 1


async def test_that_a_certificate_is_wanted_is_told() -> None:
    """By an alert once the handshake is over, as TLS 1.3 has it."""
    context = asking_for_a_certificate()

    def refuse(listener: socket.socket) -> None:
        """As often as it is asked: a GET whose connection broke is sent once more."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                refused = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                with refused, contextlib.suppress(ssl.SSLError):
                    try:
                        refused.do_handshake()
                    finally:
                        socket.socket.recv(refused, 65536)  # a close with bytes unread would overtake the alert

    with socket.create_server(("127.0.0.1", 0)) as listener:
        refusing = asyncio.create_task(asyncio.to_thread(refuse, listener))
        reading = await read(f"https://127.0.0.1:{listener.getsockname()[1]}", ca_file=CERTS / "ca.pem")
        listener.shutdown(socket.SHUT_RDWR)
        await refusing
    assert (reading.outcome, "wants a client certificate" in reading.detail) == ("tls_client_cert", True)


async def test_that_a_certificate_may_be_wanted_is_told() -> None:
    """uvicorn, as asyncio, closes without an alert; whoever saw our certificate closed for another reason."""
    async with raw_server(sends(), tls=asking_for_a_certificate()) as server:
        url = server.url.replace("http:", "https:")
        without = await read(url, ca_file=CERTS / "ca.pem")
        shown = await read(url, ca_file=CERTS / "ca.pem", client_cert_file=CERTS / "good.pem")
    assert (without.outcome, shown.outcome) == ("disconnected", "disconnected")
    assert "does it want a client certificate?" in without.detail
    assert "certificate" not in shown.detail


async def test_an_authority_that_is_not_named_is_not_trusted() -> None:
    async with raw_server(METRICS, tls=asking_for_a_certificate()) as server:
        url = server.url.replace("http:", "https:")
        assert (await read(url, client_cert_file=CERTS / "good.pem")).outcome == "tls_error"


async def test_a_certificate_file_that_changes_is_read_again(tmp_path: Path) -> None:
    """First none, then no certificate, then the right one: our own fault each time, and no restart."""
    file, outcomes = tmp_path / "ca.pem", []
    async with raw_server(METRICS, tls=asking_for_a_certificate()) as server:
        url = server.url.replace("http:", "https:")
        for put in (
            lambda: None,
            lambda: file.write_text("no certificate"),
            lambda: shutil.copy(CERTS / "ca.pem", file),
        ):
            put()
            outcomes.append((await read(url, ca_file=file, client_cert_file=CERTS / "good.pem")).outcome)
    assert outcomes == ["tls_files", "tls_files", "ok"]


async def test_a_proxy_is_asked_for_the_page_and_gets_its_key(tmp_path: Path) -> None:
    key = tmp_path / "proxy"
    key.write_text(f"me:{PASSWORD}\n")
    async with raw_server(METRICS) as proxy:
        reading = await read("http://vllm.example:8000", proxy_url=proxy.url, proxy_auth_file=key)
    assert reading.outcome == "ok"
    assert proxy.asked[0].startswith("GET http://vllm.example:8000/metrics ")
    assert "Proxy-Authorization: Basic bWU6cHctNTFjM2Uw" in proxy.asked[0]


@pytest.mark.parametrize("url", ["http://vllm.example:8000", "https://vllm.example:8000"])
async def test_a_proxy_that_is_down_or_wants_a_key_is_named(url: str, unused_tcp_port: int) -> None:
    assert (await read(url, proxy_url=f"http://127.0.0.1:{unused_tcp_port}")).outcome == "proxy_connect"
    async with raw_server(page(b"", status="407 Proxy Authentication Required")) as proxy:
        assert (await read(url, proxy_url=proxy.url)).outcome == "proxy_auth"


async def test_the_key_of_a_proxy_stands_in_no_words(tmp_path: Path) -> None:
    """Though the page repeats it, in the clear and as it was sent."""
    key = tmp_path / "proxy"
    key.write_text(f"me:{PASSWORD}")
    async with raw_server(page(f"<html>{PASSWORD} bWU6cHctNTFjM2Uw".encode())) as proxy:
        reading = await read("http://vllm.example:8000", proxy_url=proxy.url, proxy_auth_file=key)
    assert reading.outcome == "html"
    assert not [word for word in (PASSWORD, "bWU6cHctNTFjM2Uw") if word in reading.detail]
