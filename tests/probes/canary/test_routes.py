"""Headers, certificates and proxies of a target's own: used, read anew, and never told."""

import shutil
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from nasty_server import GOOD, nasty_server, reply

from probes.canary.prober import Prober
from probes.canary.task import ProbeTask, Route
from probes.canary.wire import read_task, task_line
from probes.clock import SystemClock
from probes.sample import ProbeResult

CERTS = Path(__file__).parent / "certs"
CA = str(CERTS / "ca.pem")
TASK = ProbeTask(target="t", url="", model="m", max_tokens=4)
SECRET, PASSWORD = "hdr-7f00aa", "pw-51c3e0"


async def probed(task: ProbeTask) -> ProbeResult:
    return await Prober(SystemClock()).probe(task)


async def test_headers_of_its_own_are_sent() -> None:
    route = Route(headers=(("X-Api-Key", SECRET), ("X-Team", "slo")))
    async with nasty_server(GOOD) as server:
        assert (await probed(replace(TASK, url=f"http://127.0.0.1:{server.port}", route=route))).is_ok
    assert f"X-Api-Key: {SECRET}".encode() in server.requests[0]
    assert b"X-Team: slo" in server.requests[0]


async def test_77_a_header_that_the_server_echoes_is_not_told() -> None:
    """Nor the password of a proxy, in the clear or as it is sent (base64 of "me:pw-51c3e0")."""
    echo = reply("500 Internal Server Error", {"error": f"{SECRET} {PASSWORD} bWU6cHctNTFjM2Uw"})
    async with nasty_server((echo,)) as server:
        address = f"http://127.0.0.1:{server.port}"
        route = Route(headers=(("X-Api-Key", SECRET),), proxy_url=address, proxy_auth=f"me:{PASSWORD}")
        task = replace(TASK, url="http://vllm.example:8000", route=route)
        result = await probed(task)
    assert result.outcome == "server_error"
    assert not [word for word in (SECRET, PASSWORD, "bWU6cHctNTFjM2Uw") if word in repr(result) + repr(task)]


async def test_a_proxy_is_asked_for_the_target_and_gets_its_key() -> None:
    async with nasty_server(GOOD) as proxy:
        route = Route(proxy_url=f"http://127.0.0.1:{proxy.port}", proxy_auth=f"me:{PASSWORD}")
        assert (await probed(replace(TASK, url="http://vllm.example:8000", route=route))).is_ok
    assert proxy.requests[0].startswith(b"POST http://vllm.example:8000/v1/chat/completions ")
    assert b"Proxy-Authorization: Basic bWU6cHctNTFjM2Uw" in proxy.requests[0]


@pytest.mark.parametrize("url", ["http://vllm.example:8000", "https://vllm.example:8000"])
async def test_08_a_proxy_that_is_down_is_no_outage_of_the_target(url: str, unused_tcp_port: int) -> None:
    route = Route(proxy_url=f"http://127.0.0.1:{unused_tcp_port}")
    assert (await probed(replace(TASK, url=url, route=route))).outcome == "proxy_connect"


@pytest.mark.parametrize(
    ("status", "outcome"), [("407 Proxy Authentication Required", "proxy_auth"), ("502 Bad Gateway", "proxy_connect")]
)
async def test_08_a_proxy_that_does_not_connect_us(status: str, outcome: str) -> None:
    async with nasty_server((reply(status, {}),)) as proxy:
        route = Route(proxy_url=f"http://127.0.0.1:{proxy.port}")
        assert (await probed(replace(TASK, url="https://vllm.example:8000", route=route))).outcome == outcome
    assert proxy.requests[0].startswith(b"CONNECT vllm.example:8000 ")


def asking_for_a_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "good.pem")
    context.load_verify_locations(CA)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_a_certificate_of_our_own_is_shown() -> None:
    """Cert and key may lie in one file or in two."""
    async with nasty_server(GOOD, tls=asking_for_a_certificate()) as server:
        for key in (None, str(CERTS / "good.pem")):
            route = Route(ca_file=CA, client_cert_file=str(CERTS / "good.pem"), client_key_file=key)
            assert (await probed(replace(TASK, url=f"https://127.0.0.1:{server.port}", route=route))).is_ok


async def test_a_certificate_file_that_changes_is_read_again(tmp_path: Path) -> None:
    """First a file that is none: our own fault, not the target's; then the right one, without a restart."""
    file = tmp_path / "ca.pem"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "good.pem")
    outcomes = []
    async with nasty_server(GOOD, tls=context) as server:
        prober = Prober(SystemClock())
        task = replace(TASK, url=f"https://127.0.0.1:{server.port}", route=Route(ca_file=str(file)))
        outcomes.append((await prober.probe(task)).outcome)
        file.write_text("no certificate")
        outcomes.append((await prober.probe(task)).outcome)
        shutil.copy(CA, file)
        outcomes.append((await prober.probe(task)).outcome)
    assert outcomes == ["tls_files", "tls_files", "ok"]


def test_the_wire_keeps_a_route() -> None:
    task = replace(TASK, route=Route(headers=(("A", "b"),), ca_file="x", proxy_url="http://p:1", proxy_auth="u:p"))
    assert read_task(task_line(1, task)) == (1, task)
