"""`slo-agent probe` against a tiny server: figures, the JSON of design/interfaces.md, exit codes, and the token."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from aiohttp import web
from loopback import answers, never, server

from agent.cli import main
from agent.commands.probe_words import FLAGS, flag_words

TOKEN = "sk-made-up-secret-3"


async def tiny(request: web.Request) -> web.StreamResponse:
    """An OpenAI-compatible server with one model that counts to three."""
    if request.path == "/v1/models":
        return web.json_response({"object": "list", "data": [{"id": "tiny", "object": "model"}]})
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)

    async def send(body: dict[str, object]) -> None:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny", **body}
        await answer.write(f"data: {json.dumps(chunk)}\n\n".encode())

    await send({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
    for word in ("one ", "two ", "three"):
        await asyncio.sleep(0.02)
        await send({"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]})
    await send({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
    await send({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}})
    await answer.write(b"data: [DONE]\n\n")
    return answer


async def test_json_has_the_shape_that_people_script_against(capsys: pytest.CaptureFixture[str]) -> None:
    async with server(tiny) as served:
        code = await asyncio.to_thread(main, ["probe", served.url, "--max-tokens", "3", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (code, document["outcome"]) == (0, "ok"), document
    expected = "outcome ttft_seconds first_text_seconds tpot_seconds itl_seconds e2e_seconds output_tokens"
    expected += " prompt_tokens cached_tokens timing_error_seconds phases detail"
    assert set(expected.split()) <= set(document)
    assert set(document["itl_seconds"]) == {"p50", "p99", "max"}
    assert {"dns", "connect", "tls", "headers"} <= set(document["phases"])
    assert (document["output_tokens"], document["prompt_tokens"], document["cached_tokens"]) == (3, 9, None)
    assert 0 < document["ttft_seconds"] <= document["e2e_seconds"]


async def test_text_is_for_people_and_the_token_goes_to_the_server_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    async with server(tiny) as served:
        code = await asyncio.to_thread(main, ["probe", served.url, "--max-tokens", "3", "--token-env", "MY_TOKEN"])
    out, err = capsys.readouterr()
    assert code == 0
    assert "outcome        ok" in out
    assert "model          tiny" in out
    assert "output tokens  3" in out
    assert all(request.headers["Authorization"] == f"Bearer {TOKEN}" for request in served.asked)
    assert TOKEN not in out + err


async def test_a_failed_canary_is_a_bad_answer_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    async with server(answers('{"error": {"message": "boom"}}', 500, "application/json")) as served:
        code = await asyncio.to_thread(main, ["probe", served.url, "--model", "tiny", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == 1
    assert document["outcome"] != "ok"
    assert document["ttft_seconds"] is None
    assert document["detail"]


async def test_nobody_there_is_a_bad_answer_not_a_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    async with server(never) as served:
        url = served.url
    assert await asyncio.to_thread(main, ["probe", url, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["outcome"] == "connect_refused"


async def test_what_a_failed_canary_could_not_measure_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    async with server(never) as served:
        url = served.url
    assert await asyncio.to_thread(main, ["probe", url]) == 1
    line, means = capsys.readouterr().out.splitlines()
    assert line.startswith("outcome        connect_refused  (")
    assert "ssl" not in line, "it was plain http"
    assert means == "that is        nothing listens there"


async def test_the_timing_error_and_what_was_noticed_are_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    async with server(tiny) as served:
        assert await asyncio.to_thread(main, ["probe", served.url, "--max-tokens", "3"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("timing error"))
    bar, _, rest = line.removeprefix("timing error").strip().partition(" ms")
    assert float(bar) >= 0.1, "a bar of some microseconds is not shown as 0.0"
    assert rest == ": no time above is wrong by more"


async def test_another_kind_shows_what_only_it_measures(capsys: pytest.CaptureFixture[str]) -> None:
    async with server(tiny) as served:
        code = await asyncio.to_thread(main, ["probe", served.url, "--kind", "models"])
    assert code == 0
    out = capsys.readouterr().out
    assert "models                 1" in out.splitlines()
    assert "TTFT" not in out, "a kind without output tokens has none: it is not unknown"


async def test_a_path_that_is_not_served_is_told_in_words_once(capsys: pytest.CaptureFixture[str]) -> None:
    """aiohttp and vLLM write the status into the body, too."""
    async with server(answers("404: Not Found", 404, "text/plain")) as served:
        code = await asyncio.to_thread(main, ["probe", served.url, "--model", "tiny", "--kind", "responses"])
    assert code == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["outcome        not_found  (HTTP 404: Not Found)", "that is        404 for this path"]


async def test_an_option_that_a_kind_does_not_take_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    code = await asyncio.to_thread(main, ["probe", "http://127.0.0.1:1", "--kind", "models", "--prompt", "hi"])
    assert code == 2
    assert "kind models takes no --prompt" in capsys.readouterr().err


def test_every_flag_has_words() -> None:
    """The flags are named where they are set."""
    root = Path(__file__).parents[3] / "probes"
    files = [root / "stream.py", *(root / "canary").glob("*.py")]
    text = "".join(path.read_text("utf-8") for path in files)
    flags = set(re.findall(r'flags\["(\w+)"\]', text)) | set(re.findall(r'_flag\("(\w+)"\)', text))
    assert flags <= set(FLAGS)
    assert flag_words("coalesced").startswith("coalesced: some tokens arrived together")
    assert flag_words("new_one") == "new_one"
