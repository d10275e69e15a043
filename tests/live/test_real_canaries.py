"""Canaries of every kind against a real vLLM: what each is answered, and KV reuse beside the engine's own count."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

import pytest
from live_figures import tell
from live_http import get_text
from live_parts import VLLM_SCRIPT, free_port, vllm_folder
from live_process import Server

from probes.canary.kv_reuse import KvReuseCanary
from probes.canary.prober import Prober
from probes.canary.task import ProbeTask
from probes.catalogue import CANARIES
from probes.clock import SystemClock
from probes.page import SystemPage
from probes.sample import ProbeResult

pytestmark = pytest.mark.real
START_SECONDS = 420.0
PAIRS = 5
WORDS = 1024  # a small vocabulary makes several tokens of each, and the model takes 8,192
FIRST_USE_SECONDS = 150.0  # the first use of logprobs compiles


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A vLLM that tells how much of a prompt came from its cache, and whom nobody else asks."""
    port = free_port()
    command = ["bash", VLLM_SCRIPT, "serve", vllm_folder(), str(port), "--enable-prompt-tokens-details"]
    server = Server(command, tmp_path_factory.mktemp("canaries") / "vllm.log")
    address = f"http://127.0.0.1:{port}"
    server.start_until("vLLM answers /health", START_SECONDS, lambda: get_text(f"{address}/health") == "")
    yield address
    server.stop()


def counted(url: str) -> dict[str, float]:
    """The engine's own counters."""
    reading = SystemPage("vllm").read(get_text(f"{url}/metrics"), "vllm", 0.0)
    return {sample.signal: sample.value for sample in reading.samples if not sample.label}


def test_every_kind_is_answered(url: str) -> None:
    """The weights are random, so an answer is wrong, and may be garbage: that is told, and nothing else is."""
    prober = Prober(SystemClock())

    async def all_kinds() -> dict[str, ProbeResult]:
        task = ProbeTask("vllm", url, model="tiny")
        return {item().kind: await prober.probe(_patient(item().fill(task))) for item in CANARIES}

    results = asyncio.run(all_kinds())
    for kind, result in results.items():
        tell(f"canary {kind}: {result.outcome} {dict(result.figures)} flags {','.join(result.flags)}")
    said = results.pop("correctness")
    assert said.outcome in ("ok", "garbage_output")
    assert results.pop("embedding").outcome == "not_found", "this model makes no embeddings, and says so"
    assert {result.outcome for result in results.values()} == {"ok"}
    assert (said.figures["logprob_mean"] or 0.0) < 0.0
    assert results["streaming_shape"].figures["token_events"] == 64.0
    assert (results["long_prompt"].prompt_tokens or 0) > 2000


def test_what_is_reused_is_what_the_engine_counts(url: str) -> None:
    """Hits to the token, on an engine that nobody else asks; a warm prompt has its first token sooner."""
    prober = Prober(SystemClock())

    before = counted(url)
    results = asyncio.run(_pairs(prober, url))
    after = counted(url)
    hits = after["prefix_cache_hit_tokens_total"] - before["prefix_cache_hit_tokens_total"]
    ours = sum((r.figures["warm_cached_tokens"] or 0) + (r.figures["cold_cached_tokens"] or 0) for r in results)
    cold = median(r.figures["cold_ttft_seconds"] or 0.0 for r in results)
    warm = median(r.figures["warm_ttft_seconds"] or 0.0 for r in results)
    tell(f"kv_reuse, {PAIRS} pairs: TTFT cold {cold * 1000:.1f} ms, warm {warm * 1000:.1f} ms")
    tell(f"kv_reuse, {PAIRS} pairs: hit tokens by the engine {hits:.0f}, by us {ours:.0f}")
    assert {r.outcome for r in results} == {"ok"}
    assert hits == ours > 0
    assert warm < cold
    assert {r.figures["cold_cached_tokens"] for r in results} == {0.0}


def _patient(task: ProbeTask) -> ProbeTask:
    return replace(
        task,
        gap_seconds=0.1,
        prompt_tokens=min(task.prompt_tokens, WORDS),
        first_token_timeout_seconds=FIRST_USE_SECONDS,
        total_timeout_seconds=FIRST_USE_SECONDS + 60,
    )


async def _pairs(prober: Prober, url: str) -> list[ProbeResult]:
    task = KvReuseCanary().fill(ProbeTask("vllm", url, model="tiny"))
    return [await prober.probe(replace(task, gap_seconds=0.1)) for _ in range(PAIRS)]
