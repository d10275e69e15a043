"""A real LMCache server that a real vLLM keeps its KV in, killed and started again: no fault of the engine's.

vLLM's /health stays 200 all the time; its requests wait for the cache server until the connector gives it up (after
10 s here, 300 s by default), and go on without.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from live_agent import RunningAgent
from live_figures import tell
from live_http import get_text
from live_parts import LMCACHE_SCRIPT, free_port, lmcache_folder
from live_process import Server, until
from live_requests import asking

from probes.page import SystemPage

pytestmark = pytest.mark.real
START_SECONDS = 600.0
SEEN_SECONDS = 240.0
PROMPTS = 3
ASKED, HIT = "external_cache_queried_tokens_total", "external_cache_hit_tokens_total"


@dataclass(slots=True)
class Stage:
    """The cache server, the engine that asks it, and the agent that watches both."""

    engine_url: str
    agent: RunningAgent
    cache: Server

    def ratios(self) -> dict[str, Any]:
        """The hit ratios of the last minute."""
        signals = self.agent.api("signals", window_seconds="60")["targets"]
        return {
            "tiers": signals["cache"]["signals"]["cache_hit_ratio_by_tier"],
            "engine": signals["engine"]["signals"]["external_cache_hit_ratio"],
        }

    def alerts(self) -> dict[str, dict[str, Any]]:
        return {alert["labels"]["alertname"]: alert for alert in self.agent.api("alerts")["alerts"]}

    def counted(self) -> tuple[float, float]:
        """Tokens asked of the cache and got from it, as the engine's page has them."""
        page = SystemPage("vllm").read(get_text(f"{self.engine_url}/metrics"), "engine", 0.0)
        values = {sample.signal: sample.value for sample in page.samples}
        return values[ASKED], values[HIT]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    installed, folder = lmcache_folder(), tmp_path_factory.mktemp("lmcache")
    cache_port, cache_page_port, engine_port = free_port(), free_port(), free_port()
    cache_url, engine_url = f"http://127.0.0.1:{cache_page_port}", f"http://127.0.0.1:{engine_port}"
    serve = ["bash", LMCACHE_SCRIPT, "serve", installed, str(cache_port), str(cache_page_port)]
    cache = Server(serve, folder / "lmcache.log")
    ask = ["bash", LMCACHE_SCRIPT, "vllm", installed, str(engine_port), str(cache_port)]
    engine = Server(ask, folder / "vllm.log")
    with contextlib.ExitStack() as stack:
        stack.callback(cache.stop)
        cache.start_until("LMCache has a page", START_SECONDS, lambda: get_text(f"{cache_url}/metrics"))
        stack.callback(engine.stop)
        engine.start_until("vLLM answers /health", START_SECONDS, lambda: get_text(f"{engine_url}/health") == "")
        agent = RunningAgent(config_of(engine_url, cache_url), folder)
        stack.callback(agent.server.stop)
        yield Stage(engine_url, agent, cache)


def config_of(engine_url: str, cache_url: str) -> dict[str, Any]:
    return {
        "tick_seconds": 1,
        "targets": [{"name": "engine", "url": engine_url}, {"name": "cache", "url": cache_url, "kind": "lmcache"}],
        "scrape": {"interval_seconds": 2, "timeout_seconds": 2, "down_after_seconds": 8},
        "gpu": {"enabled": "no"},
        "slos": [{"name": "ttft", "sli": "ttft", "objective_ratio": 0.99, "threshold_seconds": 2.5}],
    }


def test_a_killed_cache_server_is_named_and_its_figures_become_unknown(stage: Stage) -> None:
    """What vLLM asked and got is its own count to the token; what the cache would say is not known while it is away."""
    with asking(stage.engine_url, PROMPTS) as answered:
        well = until("hits on both pages", SEEN_SECONDS, lambda: has_hits(stage))
        tell(f"LMCache: hit ratios with the server {well}; {len(answered)} requests")
        assert stage.alerts().keys() <= {"SLOBurnRate"}

        stage.cache.kill()
        until("CacheTierDown fires", SEEN_SECONDS, lambda: "CacheTierDown" in stage.alerts())
        alert = stage.alerts()["CacheTierDown"]
        tell("CacheTierDown:", alert["annotations"]["description"])
        assert get_text(f"{stage.engine_url}/health") == ""
        assert alert["labels"]["severity"] == "ticket"
        assert "model" not in alert["labels"]
        assert "connect_refused" in alert["annotations"]["description"]

        before, answers = stage.counted(), len(answered)
        until("answers come without it", SEEN_SECONDS, lambda: sum(answered[answers:]) >= 5)
        asked, hit = (after - earlier for after, earlier in zip(stage.counted(), before, strict=True))
        tell(f"LMCache: since it went vLLM asked for {asked:.0f} tokens, got {hit:.0f}")
        assert asked > 0
        assert hit == 0
        until("unknown, and 0 of what was asked", SEEN_SECONDS, lambda: stage.ratios() == {"tiers": {}, "engine": 0.0})
        seen = stage.alerts()
        assert "EngineUnreachable" not in seen
        assert "EngineStuck" not in seen or "cache" in seen["EngineStuck"]["annotations"]["cause"]

        stage.cache.start()
        until("resolved", SEEN_SECONDS, lambda: not {"CacheTierDown", "EngineStuck"} & stage.alerts().keys())
        until("it is up", SEEN_SECONDS, lambda: stage.agent.health("cache") == stage.agent.health("engine") == "up")
        again = until("hits again", SEEN_SECONDS, lambda: has_hits(stage))
        tell(f"LMCache: hit ratios with the new server {again}; {answered.count(False)} of {len(answered)} unanswered")


def has_hits(stage: Stage) -> dict[str, Any] | None:
    """The ratios, once both sides tell of hits in the last minute."""
    ratios = stage.ratios()
    return ratios if (ratios["tiers"].get("l1") or 0) > 0 and (ratios["engine"] or 0) > 0 else None
