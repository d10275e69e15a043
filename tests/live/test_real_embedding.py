"""Embedding canaries among users of a real vLLM with a pooling model: what is left without them is the users'."""

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from live_agent import RunningAgent, write_config
from live_figures import tell
from live_http import post
from live_parts import vllm_folder
from live_process import until
from live_vllm import RealVllm

pytestmark = pytest.mark.real
USERS = 12
WAIT_SECONDS = 120.0
CONFIG = {
    "tick_seconds": 1,
    "scrape": {"interval_seconds": 2, "timeout_seconds": 2},
    "gpu": {"enabled": "no"},
    "canary_limits": {"tokens_per_hour": 10_000_000, "idle_tokens_per_hour": 10_000_000, "max_requests_waiting": 100},
    "canaries": [{"kind": "embedding", "interval_seconds": 1.5}],
    "slos": [{"name": "ttft", "sli": "ttft", "objective_ratio": 0.99, "threshold_seconds": 2.5}],
}


@pytest.fixture
def pooling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    """The tiny model, whose last hidden state is the vector."""
    options = ("--runner", "pooling", "--convert", "embed")
    vllm = RealVllm(vllm_folder(), tmp_path_factory.mktemp("pooling"), options=options)
    vllm.start()
    yield vllm
    vllm.stop()


def embed(url: str, text: str) -> int:
    """One user's embedding; the tokens that it took."""
    body = {"model": "tiny", "input": text, "encoding_format": "float"}
    request = urllib.request.Request(  # noqa: S310  our own server
        f"{url}/v1/embeddings", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:  # noqa: S310
        return int(json.loads(answer.read())["usage"]["prompt_tokens"])


def signals(agent: RunningAgent) -> dict[str, Any]:
    return dict(agent.api("signals", window_seconds="3600")["total"]["signals"])


def test_users_of_an_embedding_model_are_told_without_our_canaries(
    pooling: RealVllm, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("agent")
    config = {**CONFIG, "targets": [{"name": "engine", "url": pooling.url}]}
    agent = RunningAgent(config, folder)
    try:
        until("canaries are answered", WAIT_SECONDS, lambda: len(ok_probes(agent)) >= 5)
        until("they are found on the page", WAIT_SECONDS, lambda: signals(agent)["probe_share_ratio"] == 1.0)
        (idle,) = agent.api("slos")["slos"]
        tokens = sum(embed(pooling.url, "How much is " + "one and " * n + "one?") for n in range(USERS))
        listen = agent.url.removeprefix("http://")
        write_config(
            {**config, "canary_limits": {"enabled": False}, "server": {"listen": listen}}, folder / "agent.yaml"
        )
        post(f"{agent.url}/-/reload")  # nothing of ours is under way when the figures are read
        with contextlib.suppress(AssertionError):  # what is off is told below
            until("all are counted", WAIT_SECONDS / 4, lambda: signals(agent)["requests_finished"] == USERS)
        seen = signals(agent)
        sent = len(ok_probes(agent))
    finally:
        agent.server.stop()
    counted = {name: seen[name]["p50"]["count"] for name in ("ttft_seconds", "e2e_seconds", "tpot_seconds")}
    tell(f"embedding: {sent} canaries, share {seen['probe_share_ratio']:.3f}; users {USERS}, {tokens} tokens")
    tell(f"embedding: left are {seen['requests_finished']} requests, {seen['prompt_tokens']} tokens, {counted}")
    assert idle["state"] == "no_traffic"
    assert (seen["requests_finished"], seen["prompt_tokens"]) == (USERS, tokens)
    assert counted == dict.fromkeys(counted, USERS)
    assert seen["itl_seconds"] is None


def ok_probes(agent: RunningAgent) -> list[dict[str, Any]]:
    return [one for one in agent.api("probes")["probes"] if one["outcome"] == "ok"]
