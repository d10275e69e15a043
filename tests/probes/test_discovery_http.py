"""Targets from an http_sd address and from names: what they answer, and what stays when they do not."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import TypeAdapter, ValidationError

from probes.discovery.dns import DnsTargets
from probes.discovery.file import FileTargets, Found
from probes.discovery.http import HttpTargets
from probes.discovery.item import Discovery, DnsDiscovery, HttpDiscovery
from probes.discovery.kubernetes import KubernetesTargets
from probes.discovery.role import role_of
from probes.discovery.source import TargetSource, make_source

GOOD = '[{"targets": ["a:8000", "b:8000"], "labels": {"role": "decode"}}, {"targets": []}]'


@dataclass(slots=True)
class Served:
    """What is answered next."""

    url: str = ""
    status: int = 200
    body: str = GOOD
    wait_seconds: float = 0.0
    authorization: str | None = None


@contextlib.asynccontextmanager
async def http_sd() -> AsyncIterator[Served]:
    served = Served()

    async def answer(request: web.Request) -> web.Response:
        served.authorization = request.headers.get("Authorization")
        await asyncio.sleep(served.wait_seconds)
        headers = {"Location": served.url} if served.status == 302 else {}
        return web.Response(text=served.body, status=served.status, headers=headers, content_type="application/json")

    app = web.Application()
    app.router.add_get("/sd", answer)
    async with TestServer(app) as server:
        served.url = str(server.make_url("/sd"))
        yield served


async def refreshed(source: TargetSource) -> tuple[Found, ...]:
    async with aiohttp.ClientSession() as session:
        await source.refresh(session)
    return source.look()


DECODE = (Found("a:8000", {"role": "decode"}), Found("b:8000", {"role": "decode"}))


async def test_reads_prometheus_http_sd_format() -> None:
    async with http_sd() as served:
        source = HttpTargets(HttpDiscovery(url=served.url))
        assert source.look() == ()
        assert await refreshed(source) == DECODE
    assert (source.trouble, source.place) == ("", served.url)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (500, GOOD, "HTTP 500"),
        (401, GOOD, "HTTP 401: the token is missing"),
        (302, GOOD, "a redirect is not followed"),
        (200, "<html>", "Expecting value"),
        (200, '{"targets": []}', "expected a list"),
        (200, '[{"targets": "a:1"}]', "group 0 lacks"),
        (200, "[" * 100_000, ""),
    ],
)
async def test_an_answer_that_is_none_keeps_the_last_list_and_heals(status: int, body: str, words: str) -> None:
    async with http_sd() as served:
        source = HttpTargets(HttpDiscovery(url=served.url))
        await refreshed(source)
        served.status, served.body = status, body
        assert await refreshed(source) == DECODE
        assert words in source.trouble
        assert "last good list (2 targets) stays in use" in source.trouble
        served.status, served.body = 200, "[]"
        assert await refreshed(source) == ()
        assert source.trouble == ""


async def test_an_answer_that_does_not_come_is_not_waited_for() -> None:
    async with http_sd() as served:
        source = HttpTargets(HttpDiscovery(url=served.url, timeout_seconds=0.05))
        served.wait_seconds = 1.0
        assert await refreshed(source) == ()
    assert "no answer within 0.05 s" in source.trouble


async def test_nobody_there_is_trouble() -> None:
    source = HttpTargets(HttpDiscovery(url="http://127.0.0.1:9/sd", timeout_seconds=5))
    assert await refreshed(source) == ()
    assert source.trouble.startswith("http://127.0.0.1:9/sd: ")


async def test_a_token_comes_from_its_file_at_every_use(tmp_path: Path) -> None:
    token = tmp_path / "token"
    async with http_sd() as served:
        source = HttpTargets(HttpDiscovery(url=served.url, bearer_token_file=token))
        await refreshed(source)
        assert "No such file" in source.trouble
        token.write_text("first\n")
        await refreshed(source)
        assert served.authorization == "Bearer first"
        token.write_text("second")
        await refreshed(source)
        assert served.authorization == "Bearer second"


async def test_every_address_of_a_name_is_a_target() -> None:
    source = DnsTargets(DnsDiscovery(name="127.0.0.1", port=8000, labels={"role": "prefill"}))
    assert await refreshed(source) == (Found("127.0.0.1:8000", {"kind": "vllm", "role": "prefill"}),)


async def test_addresses_of_version_six_stand_in_brackets() -> None:
    source = DnsTargets(DnsDiscovery(name="::1", port=8000, family="both", target_kind="lmcache"))
    assert await refreshed(source) == (Found("[::1]:8000", {"kind": "lmcache"}),)


async def test_a_name_that_cannot_be_resolved_keeps_the_last_list(monkeypatch: pytest.MonkeyPatch) -> None:
    source = DnsTargets(DnsDiscovery(name="127.0.0.1", port=8000))
    before = await refreshed(source)

    def fails(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    assert await refreshed(source) == before
    assert source.trouble == (
        "dns 127.0.0.1: the name cannot be resolved. The last good list (1 targets) stays in use."
    )


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"path": "t.json"}, FileTargets),
        ({"kind": "file", "path": "t.json"}, FileTargets),
        ({"kind": "http", "url": "http://sd:1/x"}, HttpTargets),
        ({"kind": "dns", "name": "vllm", "port": 8000}, DnsTargets),
        ({"kind": "kubernetes"}, KubernetesTargets),
    ],
)
def test_an_entry_without_a_kind_is_a_file(entry: dict[str, object], kind: type) -> None:
    adapter: TypeAdapter[Discovery] = TypeAdapter(Discovery)
    assert isinstance(make_source(adapter.validate_python(entry)), kind)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"kind": "http", "url": "sd:1/x"}, "expected an address"),
        ({"kind": "http", "url": "http://u:p@sd/x"}, "no user or password"),
        ({"kind": "dns", "name": "vllm"}, "expected a port, or family: SRV"),
        ({"kind": "dns", "name": "vllm", "port": 1, "family": "SRV"}, "not both"),
        ({"kind": "kubernetes", "namespace": "x", "all_namespaces": True}, "either namespace or all_namespaces"),
        ({"kind": "consul"}, "consul"),
    ],
)
def test_entries_that_cannot_be_meant_are_refused(entry: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        TypeAdapter(Discovery).validate_python(entry)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"role": "decode"}, ("decode", "role=decode")),
        ({"llm-d.ai/role": "both"}, ("aggregated", "llm-d.ai/role=both")),
        ({"role": "odd", "llm-d.ai/role": "prefill"}, ("prefill", "llm-d.ai/role=prefill")),
        ({"role": "odd"}, None),
        ({}, None),
    ],
)
def test_a_role_comes_with_the_label_that_said_it(labels: dict[str, str], said: tuple[str, str] | None) -> None:
    assert role_of(labels) == said
