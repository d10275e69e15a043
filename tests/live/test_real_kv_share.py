"""A pair over two real vLLMs with one real LMCache server: the second one finds what the first one stored."""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace

import pytest
from live_figures import tell
from live_http import get_text
from live_parts import LMCACHE_SCRIPT, free_port, lmcache_folder
from live_process import Server

from probes.canary.kv_reuse import KvReuseCanary
from probes.canary.prober import Prober
from probes.canary.task import Elsewhere, ProbeTask
from probes.clock import SystemClock
from probes.page import SystemPage
from probes.sample import ProbeResult

pytestmark = pytest.mark.real
START_SECONDS = 600.0
ANSWER_SECONDS = 150.0  # the first request of all compiles
WORDS = 512
HIT = "external_cache_hit_tokens_total"
OWN = "prefix_cache_hit_tokens_total"


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The addresses of both; neither has a prefix cache of its own."""
    installed, folder = lmcache_folder(), tmp_path_factory.mktemp("share")
    cache_port, page_port = free_port(), free_port()
    with contextlib.ExitStack() as stack:
        serve = ["bash", LMCACHE_SCRIPT, "serve", installed, str(cache_port), str(page_port)]
        cache = Server(serve, folder / "lmcache.log")
        stack.callback(cache.stop)
        page = f"http://127.0.0.1:{page_port}/metrics"
        cache.start_until("LMCache has a page", START_SECONDS, lambda: get_text(page))
        urls = []
        for name in ("a", "b"):
            port = free_port()
            words = ["bash", LMCACHE_SCRIPT, "vllm", installed, str(port), str(cache_port)]
            engine = Server([*words, "--enable-prompt-tokens-details"], folder / f"{name}.log")
            stack.callback(engine.stop)
            urls.append(url := f"http://127.0.0.1:{port}")
            engine.start_until("vLLM answers /health", START_SECONDS, lambda url=url: get_text(f"{url}/health") == "")
        yield urls


def counted(url: str) -> dict[str, float]:
    page = SystemPage("vllm").read(get_text(f"{url}/metrics"), "engine", 0.0)
    return {sample.signal: sample.value for sample in page.samples if not sample.label}


def test_the_warm_half_finds_at_the_second_what_the_first_one_stored(engines: list[str]) -> None:
    """To the token as the second one's own page has it, and none of it from a cache of its own."""
    first, second = engines
    prober = Prober(SystemClock())

    async def pairs() -> list[ProbeResult]:
        task = KvReuseCanary(prompt_tokens=WORDS).fill(ProbeTask("a", first, model="tiny"))
        task = replace(
            task,
            gap_seconds=2.0,
            elsewhere=Elsewhere("b", second, "tiny"),
            first_token_timeout_seconds=ANSWER_SECONDS,
            total_timeout_seconds=2 * ANSWER_SECONDS,
        )
        return [await prober.probe(task) for _ in range(3)]

    before = counted(second)
    results = asyncio.run(pairs())
    after = counted(second)
    figures = [result.figures for result in results]
    found = sum(one["warm_cached_tokens"] or 0.0 for one in figures)
    tell(f"KV share: hits of the warm halves {[one['warm_cached_tokens'] for one in figures]}")
    tell(f"KV share: TTFT cold {[one['cold_ttft_seconds'] for one in figures]}")
    tell(f"KV share: TTFT warm {[one['warm_ttft_seconds'] for one in figures]}")
    assert [(result.outcome, result.target) for result in results] == [("ok", "a")] * 3
    assert min(one["warm_cached_tokens"] or 0.0 for one in figures) > 0
    assert {one["cold_cached_tokens"] for one in figures} == {0.0}
    assert after[HIT] - before[HIT] == found
    assert after[OWN] == before[OWN]
