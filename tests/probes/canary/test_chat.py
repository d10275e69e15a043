"""The chat canary: what it sends, what it learns, what it finds out by itself."""

import asyncio
import os
import re
import time
from dataclasses import replace

import pytest
from nasty_server import DONE, GOOD, HANG, NastyServer, Script, Step, chunk, head, nasty_server, reply, token

from probes.canary.base_url import base_url
from probes.canary.prober import Prober, run_probe
from probes.canary.task import ProbeTask
from probes.canary.transport import Transport
from probes.clock import ScaledClock, SystemClock

TASK = ProbeTask(target="t", url="", model="m", token="tok", prompt="hi", max_tokens=4)
MODELS = reply("200 OK", {"object": "list", "data": [{"id": "m"}, {"id": "n"}]})


def refusal(message: object, status: str = "400 Bad Request") -> Script:
    return (reply(status, message),)


def extra(*location: str) -> object:
    return {
        "detail": [{"type": "extra_forbidden", "loc": ["body", *location], "msg": "Extra inputs are not permitted"}]
    }


async def test_what_is_sent() -> None:
    async with nasty_server(GOOD) as server:
        result = await run_probe(replace(TASK, url=f"http://127.0.0.1:{server.port}/v1/"), SystemClock())
    request = server.requests[0].decode().lower()
    assert request.startswith("post /v1/chat/completions http/1.1")
    assert "authorization: bearer tok" in request
    assert "accept-encoding: identity" in request
    assert f"x-request-id: {result.request_id}" in request
    assert re.fullmatch(r"slo-canary-[0-9a-f]{24}", result.request_id)
    assert server.body() == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0,
        "max_tokens": 4,
        "min_tokens": 4,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }


async def test_a_good_answer_has_all_its_figures() -> None:
    async with nasty_server(GOOD) as server:
        result = await run_probe(replace(TASK, url=f"http://127.0.0.1:{server.port}"), SystemClock())
    assert result.is_ok
    assert (result.model, result.output_tokens, result.prompt_tokens, result.cached_tokens) == ("m", 4, 9, None)
    assert 0 < (result.ttft_seconds or 0) <= (result.e2e_seconds or 0)
    assert result.first_text_seconds == result.ttft_seconds
    assert (result.timing_error_seconds or 0) > 0
    assert sum(result.itl_gaps_seconds) == pytest.approx((result.e2e_seconds or 0) - (result.ttft_seconds or 0))


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused_tcp_port}")
    async with nasty_server(GOOD) as server:
        assert (await run_probe(replace(TASK, url=f"http://127.0.0.1:{server.port}"), SystemClock())).is_ok


@pytest.mark.parametrize(
    ("refused", "absent", "present"),
    [
        (refusal(extra("ignore_eos"), "422 Unprocessable Content"), "ignore_eos", "min_tokens"),
        (refusal(extra("min_tokens"), "422 Unprocessable Content"), "min_tokens", "ignore_eos"),
        (refusal(extra("stream_options", "continuous_usage_stats")), "continuous_usage_stats", "stream_options"),
        (refusal({"error": {"message": "unrecognized: stream_options"}}), "stream_options", "stream"),
        (
            refusal({"error": {"param": "max_tokens", "message": "Use 'max_completion_tokens'."}}),
            "max_tokens",
            "max_completion_tokens",
        ),
        (refusal({"error": {"message": "'temperature' does not support 0"}}), "temperature", "max_tokens"),
    ],
)
async def test_12_a_refused_field_is_left_out_from_then_on(refused: Script, absent: str, present: str) -> None:
    """One retry at once without the field; the next canary does not send it in the first place."""
    prober = Prober(SystemClock())
    async with nasty_server(refused, GOOD) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}")
        first = await prober.probe(task)
        second = await prober.probe(task)
    assert (first.outcome, second.outcome) == ("ok", "ok")
    assert "dialect_learnt" in first.flags
    assert "dialect_learnt" not in second.flags
    assert server.connections == 3
    for number in (1, 2):
        body = server.body(number)
        assert absent not in {*body, *body.get("stream_options", {})}
        assert present in body


async def test_12_a_second_refusal_waits_for_the_next_canary() -> None:
    """One retry, no more: a server that fails gets less load."""
    async with nasty_server(refusal(extra("ignore_eos")), refusal(extra("min_tokens")), GOOD) as server:
        prober = Prober(SystemClock())
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}")
        assert (await prober.probe(task)).outcome == "bad_request"
        assert server.connections == 2
        assert (await prober.probe(task)).outcome == "ok"
    assert server.connections == 3
    assert not {"ignore_eos", "min_tokens"} & server.body(2).keys()


async def test_dialects_are_each_models_own() -> None:
    """A gateway may have a strict model beside one that takes everything."""
    prober = Prober(SystemClock())
    async with nasty_server(refusal(extra("ignore_eos")), GOOD) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}")
        await prober.probe(task)
        await prober.probe(replace(task, model="other"))
    assert "ignore_eos" in server.body(2)


async def test_a_model_is_found_when_none_is_named() -> None:
    """And found again when the server has forgotten it: after a 404 the list is read anew."""
    gone = reply("404 Not Found", {"error": {"message": "The model `m` does not exist."}})
    async with nasty_server((MODELS,), GOOD, GOOD, (gone,), (MODELS,), GOOD) as server:
        prober = Prober(SystemClock())
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", model=None)
        outcomes = [(await prober.probe(task)).outcome for _ in range(4)]
    assert outcomes == ["ok", "ok", "model_not_found", "ok"]
    assert server.requests[0].startswith(b"GET /v1/models ")
    assert b"Authorization: Bearer tok" in server.requests[0]
    assert server.body(1)["model"] == "m"


async def test_a_model_found_at_one_address_is_not_asked_of_another() -> None:
    """Probes on request share a target's name; their servers are not the same."""
    other = reply("200 OK", {"data": [{"id": "n"}]})
    prober = Prober(SystemClock())
    async with nasty_server((MODELS,), GOOD) as one, nasty_server((other,), GOOD) as two:
        for server, model in ((one, "m"), (two, "n"), (one, "m")):
            task = replace(TASK, url=f"http://127.0.0.1:{server.port}", model=None)
            assert (await prober.probe(task)).model == model


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (reply("200 OK", {"data": []}), "no_model"),
        (reply("200 OK", {"data": [{"id": "m\n"}]}), "no_model"),
        (reply("401 Unauthorized", {"error": "Unauthorized"}), "auth"),
        (head("200 OK", "text/html") + b"<html>", "content_type"),
        (head("404 Not Found", "text/html") + b"<html>", "not_found"),
    ],
)
async def test_why_no_model_is_found(answer: bytes, outcome: str) -> None:
    async with nasty_server((answer,)) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", model=None)
        assert (await run_probe(task, SystemClock())).outcome == outcome
    assert server.connections == 1


async def test_78_ten_thousand_models() -> None:
    names = {"data": [{"id": f"model-{number}"} for number in range(10_000)]}
    async with nasty_server((reply("200 OK", names),), GOOD) as server:
        result = await run_probe(replace(TASK, url=f"http://127.0.0.1:{server.port}", model=None), SystemClock())
    assert (result.outcome, result.model) == ("ok", "model-0")


async def test_a_partial_answer_keeps_what_was_seen() -> None:
    """Two tokens, then silence: no good result, but the first token's time is known."""
    async with nasty_server((head(), token(1), 0.01, token(2), HANG)) as server:
        task = replace(TASK, url=f"http://127.0.0.1:{server.port}", stall_timeout_seconds=0.1)
        result = await run_probe(task, SystemClock())
    assert result.outcome == "stall_timeout"
    assert result.output_tokens == 2
    assert result.ttft_seconds is not None


async def test_timers_run_on_the_injected_clock() -> None:
    """At 50 times the speed, a stall timeout of 5 s takes a tenth of a second; the total would take 20 s."""
    async with nasty_server((head(), token(1), HANG)) as server:
        task = replace(
            TASK, url=f"http://127.0.0.1:{server.port}", stall_timeout_seconds=5.0, total_timeout_seconds=1000
        )
        clock = ScaledClock(speed=50.0, epoch_seconds=0.0)
        started_at = clock.monotonic_seconds()
        result = await run_probe(task, clock)
    assert result.outcome == "stall_timeout"
    assert clock.monotonic_seconds() - started_at >= 5.0


async def test_75_a_cancelled_probe_hangs_up() -> None:
    """The server sees the end of the connection, and can stop generating."""
    sent = asyncio.Event()
    async with nasty_server((head(), token(1), sent.set, HANG)) as server:
        running = asyncio.create_task(run_probe(replace(TASK, url=f"http://127.0.0.1:{server.port}"), SystemClock()))
        await sent.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(server.hung_up.wait(), 5.0)


# A token lies in the socket while the client's loop is blocked for 80 ms.
LAGGING = (head(), token(1), 0.05, token(2, finish="stop"), lambda: time.sleep(0.08), 0.05, DONE)


async def test_73_a_lagging_client_moves_no_stamp_of_the_kernel() -> None:
    async with nasty_server(LAGGING) as server:
        result = await run_probe(replace(TASK, url=f"http://127.0.0.1:{server.port}"), SystemClock())
    assert 0.04 <= (result.e2e_seconds or 0.0) < 0.08
    assert (result.timing_error_seconds or 1.0) < 0.01
    assert "client_lag" not in result.flags


async def test_73_a_lagging_client_is_told_where_the_kernel_gives_no_stamps() -> None:
    """The error bar holds what the stamp is off: with the lag, the second token seems to come 130 ms late."""
    prober = Prober(SystemClock(), Transport(kernel_stamps=False))
    async with nasty_server(LAGGING) as server:
        result = await prober.probe(replace(TASK, url=f"http://127.0.0.1:{server.port}"))
    assert (result.e2e_seconds or 0.0) >= 0.12
    assert (result.timing_error_seconds or 0.0) >= 0.07
    assert "client_lag" in result.flags


async def test_tokens_that_wait_together_have_one_stamp_and_the_lag_for_an_error() -> None:
    """Both lie in the socket while the loop is blocked for 60 ms: the first came 30 ms before the stamp of both."""

    def write_apart(server: NastyServer) -> None:
        raw = server.writers[-1].get_extra_info("socket")
        for step in (token(2), token(3, finish="stop")):
            os.write(raw.fileno(), step)
            time.sleep(0.03)

    script: list[Step] = [head(), token(1), 0.02, lambda: write_apart(server), 0.02, DONE]
    async with nasty_server(script) as server:
        result = await run_probe(replace(TASK, url=f"http://127.0.0.1:{server.port}"), SystemClock())
    assert "coalesced" in result.flags
    assert (result.timing_error_seconds or 0.0) >= 0.03


async def test_the_first_event_may_have_no_token() -> None:
    """A role comes at once, the token 30 ms later: benchmarks that take the event for the token call it TTFT."""
    script = (head(), chunk({"role": "assistant", "content": ""}), 0.03, token(1), token(2, finish="stop"), DONE)
    async with nasty_server(script) as server:
        result = await run_probe(replace(TASK, url=f"http://127.0.0.1:{server.port}"), SystemClock())
    assert (result.ttft_seconds or 0.0) - (result.first_event_seconds or 0.0) >= 0.02


async def test_the_first_token_may_be_unseen() -> None:
    """Reasoning counts as the first token; visible text comes later, or never."""
    script = (head(), chunk({"reasoning": "hm"}, used=1), 0.01, chunk({"content": "a"}, used=2, finish="stop"), DONE)
    async with nasty_server(script) as server:
        result = await run_probe(replace(TASK, url=f"http://127.0.0.1:{server.port}"), SystemClock())
    assert (result.first_text_seconds or 0.0) > (result.ttft_seconds or 0.0)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h:8000", "http://h:8000"),
        ("http://h:8000/", "http://h:8000"),
        ("http://h:8000/v1", "http://h:8000"),
        ("https://h/llm/v1/", "https://h/llm"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_base_of_a_url(url: str, base: str) -> None:
    assert base_url(url) == base
