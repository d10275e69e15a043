"""The likely cause of a burning SLO: what no page tells is said to be unknown, never 0."""

from dataclasses import replace

import pytest
from fake_engine import FakeEngine, page_of

from agent.alerts.cause import likely_cause
from agent.model import Slo, TargetStatus
from agent.sli.count import TargetFacts
from agent.windows import Windows
from probes.sample import Sample

T0 = 1_800_000_000.0
SLO = Slo("s", "chat", "ttft", "engine", 0.99, 2_592_000.0, (), 2.5)
STATUS = TargetStatus("vllm-0", "vllm", "up", T0, "ok", "", "m", "aggregated")


@pytest.mark.parametrize(("is_told", "words"), [(True, "12 preemptions"), (False, "an unknown number of preemptions")])
def test_a_full_cache_tells_its_preemptions_or_that_nobody_knows_them(*, is_told: bool, words: str) -> None:
    windows, engine = Windows(), FakeEngine(running=8, waiting=5, kv_usage=0.99)
    for step in range(4):
        page = engine.reading(T0 + 10 * step)
        kept = tuple(sample for sample in page.samples if is_told or sample.signal != "preemptions_total")
        windows.take(replace(page, samples=kept))
        engine.preemptions += 4
    cause = likely_cause(SLO, [STATUS], {"vllm-0": TargetFacts("m", "aggregated", None)}, windows, T0 + 30)
    assert cause.code == "kv_exhaustion"
    assert words in cause.words


@pytest.mark.parametrize(("gap", "code"), [(0.03, "unknown"), (0.2, "slow_engine")])
def test_one_slow_rank_of_a_target_is_named_with_its_gap(gap: float, code: str) -> None:
    """Two ranks do 20 ms a token; the third needs 30 ms, which is load, or 200 ms, which is not."""
    windows, ranks = Windows(), [FakeEngine(engine=str(rank), running=1) for rank in range(3)]
    for step in range(3):
        windows.take(page_of(ranks, T0 + 10 * step))
        for rank, each in zip(ranks, (0.02, 0.02, gap), strict=True):
            rank.observe("itl_seconds", each, times=100)
    cause = likely_cause(SLO, [STATUS], {"vllm-0": TargetFacts("m", "aggregated", None)}, windows, T0 + 30)
    assert cause.code == code
    told = "engine 2 of vllm-0 is slow: 200 ms between two tokens, 20 ms on the others, over 5 min"
    assert (cause.words == told) == (code == "slow_engine")


def test_a_large_model_beside_a_small_one_is_no_slow_rank() -> None:
    windows = Windows()
    engines = [FakeEngine(model="small", running=1), FakeEngine(model="large", running=1)]
    for step in range(3):
        windows.take(page_of(engines, T0 + 10 * step))
        for engine, each in zip(engines, (0.02, 0.2), strict=True):
            engine.observe("itl_seconds", each, times=200)
    cause = likely_cause(SLO, [STATUS], {"vllm-0": TargetFacts("", "aggregated", None)}, windows, T0 + 30)
    assert cause.code == "unknown"


CACHE_DOWN = TargetStatus(
    "cache", "lmcache", "down", T0, "connect_refused", "no metrics page for 40 s", "", "aggregated"
)


def cause_with_a_cache_down(asked: float, its_service: str | None = None, health: str = "up") -> tuple[str, str]:
    windows = Windows()
    page = FakeEngine(running=1).reading(T0)
    queried = Sample("external_cache_queried_tokens_total", "counter", "0", "m", asked)
    windows.take(replace(page, samples=(*page.samples, queried)))
    facts = {"vllm-0": TargetFacts("m", "aggregated", "chat"), "cache": TargetFacts("", "aggregated", its_service)}
    engine = replace(STATUS, health=health, detail="no step in 30 s")
    cause = likely_cause(SLO, [engine, CACHE_DOWN], facts, windows, T0)
    return cause.code, cause.words


def test_a_cache_server_that_is_down_is_a_cause_where_the_engines_ask_one() -> None:
    """The engine's own page says whether it has ever asked; a cache of another service is none of its business."""
    code, words = cause_with_a_cache_down(asked=5000)
    assert (code, "cache is down" in words) == ("cache_tier_down", True)
    assert cause_with_a_cache_down(asked=0)[0] == "unknown"
    assert cause_with_a_cache_down(asked=5000, its_service="search")[0] == "unknown"


def test_a_stuck_engine_comes_before_its_cache_and_both_are_told() -> None:
    code, words = cause_with_a_cache_down(asked=5000, health="stuck")
    assert code == "engine_stuck"
    assert words == "vllm-0 is stuck: no step in 30 s; the cache server cache is down: no metrics page for 40 s"
