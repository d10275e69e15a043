"""`slo-agent inspect`: from a file and from an address, as text and as the JSON of design/interfaces.md."""

import asyncio
import json
from pathlib import Path

import pytest
from loopback import METRICS, Served, answers, server

from agent.cli import main

PAGE = Path(__file__).parents[2] / "fixtures" / "pages" / "vllm_0.32_cpu.prom"


def test_json_has_the_shape_that_people_script_against(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(PAGE), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["system", "version", "samples", "engines", "signals", "warnings"]
    assert (document["system"], document["version"]) == ("vllm", "0.32..")
    assert document["engines"] == [{"engine": "0", "model": "tiny"}]
    assert document["signals"]["generation_tokens_total"] == 248
    assert document["signals"]["requests_running"] == 0
    assert document["warnings"] == []


def test_text_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(PAGE)]) == 0
    out = capsys.readouterr().out
    assert "system    vllm" in out
    assert "engine    0  model tiny" in out
    rows = [line.split() for line in out.splitlines()]
    assert "version   0.32 or newer" in out
    assert ["generation_tokens_total", "248"] in rows
    assert ["kv_capacity_tokens", "524,288"] in rows
    assert ["queue_seconds_sum", "0.0002284", "s"] in rows
    assert sum("unknown" in row for row in rows) == 1, "what the page lacks stands in one place"
    assert "kv_offload_load_bytes_total" in out.partition("unknown   (no such series)")[2]


def test_an_unknown_page_is_answered_and_is_bad(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page").write_text("go_goroutines 7\n")
    assert main(["inspect", str(tmp_path / "page"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["system"], document["samples"], document["engines"], document["signals"]) == ("unknown", 1, [], {})
    assert [set(warning) for warning in document["warnings"]] == [{"code", "message"}]


@pytest.mark.parametrize(("path", "asked"), [("", "/metrics"), ("/", "/metrics"), ("/stats", "/stats")])
async def test_an_address_without_a_path_gets_metrics(
    path: str, asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with server(answers(METRICS)) as served:
        assert await asyncio.to_thread(main, ["inspect", served.url + path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["signals"]["generation_tokens_total"] == 7
    assert paths(served) == [asked]


async def test_a_bad_answer_is_wrong_usage_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    async with server(answers("no", 401)) as served:
        assert await asyncio.to_thread(main, ["inspect", served.url]) == 2
    assert "status_401: HTTP 401: the server wants a token" in capsys.readouterr().err


def paths(served: Served) -> list[str]:
    return [request.path for request in served.asked]
