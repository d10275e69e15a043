"""Canaries for a real vLLM's model and each of its LoRA adapters, which its page counts under the model's name."""

import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_agent import RunningAgent, write_config
from live_figures import tell
from live_http import get_text, post
from live_parts import vllm_folder
from live_process import until
from live_vllm import RealVllm

from probes.page import SystemPage

pytestmark = pytest.mark.real
ADAPTERS = ("first", "second")
KINDS = ("chat", "completion", "responses")
WAIT_SECONDS = 240.0
PAGE_SECONDS = 2.0
PATIENCE = {"first_token_timeout_seconds": 100, "total_timeout_seconds": 120}  # the first use of an adapter compiles
CONFIG = {
    "tick_seconds": 1,
    "scrape": {"interval_seconds": PAGE_SECONDS, "timeout_seconds": 2},
    "gpu": {"enabled": "no"},
    "canary_limits": {"tokens_per_hour": 10_000_000, "idle_tokens_per_hour": 10_000_000, "max_requests_waiting": 100},
    "canaries": [{"kind": kind, "interval_seconds": 4, "adapters": True, **PATIENCE} for kind in KINDS],
}


@pytest.fixture
def adapted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    """The tiny model with two adapters of random weights."""
    installed, folder = vllm_folder(), tmp_path_factory.mktemp("adapters")
    script = Path(__file__).with_name("make_tiny_adapter.py")
    for name in ADAPTERS:
        subprocess.run([installed / "venv" / "bin" / "python", script, folder / name], check=True)
    modules = [f"{name}={folder / name}" for name in ADAPTERS]
    vllm = RealVllm(installed, folder, options=("--enable-lora", "--max-lora-rank", "8", "--lora-modules", *modules))
    vllm.start()
    yield vllm
    vllm.stop()


def finished(url: str) -> float:
    """Requests that the engine has counted as ended."""
    page = SystemPage("vllm").read(get_text(f"{url}/metrics"), "engine", 0.0)
    return sum(one.value for one in page.samples if one.signal == "requests_finished_total")


def test_each_adapter_is_asked_in_turn_and_taken_out_of_the_models_counts(
    adapted: RealVllm, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("agent")
    config = {**CONFIG, "targets": [{"name": "engine", "url": adapted.url, "model": "tiny"}]}
    agent = RunningAgent(config, folder)
    try:
        until("every kind has asked each of them", WAIT_SECONDS, lambda: len(asked(agent)) == 3 * len(KINDS))
        listen = {"server": {"listen": agent.url.removeprefix("http://")}}
        write_config({**config, **listen, "canary_limits": {"enabled": False}}, folder / "agent.yaml")
        post(f"{agent.url}/-/reload")
        time.sleep(3 * PAGE_SECONDS)  # the last one is on a page that was read
        seen, told = asked(agent), signals(agent)
    finally:
        agent.server.stop()
    tell(f"adapters: canaries by kind and model {dict(sorted(seen.items()))}; share {told['probe_share_ratio']}")
    assert set(seen) == {(kind, model) for kind in KINDS for model in ("tiny", *ADAPTERS)}
    assert sum(seen.values()) == finished(adapted.url)
    assert (told["probe_share_ratio"], told["requests_finished"]) == (1.0, 0)


def asked(agent: RunningAgent) -> Counter[tuple[str, str]]:
    """How many canaries were answered well, by kind and by the model or adapter that was asked."""
    return Counter((one["kind"], one["model"]) for one in agent.api("probes")["probes"] if one["outcome"] == "ok")


def signals(agent: RunningAgent) -> dict[str, Any]:
    return dict(agent.api("signals", window_seconds="3600")["total"]["signals"])
