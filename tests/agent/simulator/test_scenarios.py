"""The stories tell what they say, and two of them to the last digit."""

import json
import os
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from agent.simulator.ask import Sequence
from agent.simulator.scenarios import SCENARIOS

GOLDEN = Path(__file__).parent / "golden_scenarios.json"
START_SECONDS = 1_800_000_000.0
WANTED = {
    *("demo", "steady", "ramp", "step_x3", "diurnal_week", "burst", "isl_shift", "osl_shift", "hit_collapse"),
    *("kv_exhaustion", "slow_pod", "skew_85_15", "pod_crash", "pd_decode_starvation", "pd_prefill_starvation"),
    *("remote_kv_slow", "tier_down", "zero_traffic", "infeasible_slo", "rolling_restart", "stuck_engine"),
}


def story(name: str, seed: int, until_seconds: float) -> tuple[list[Sequence], str]:
    """All requests that ended by then, and the pages of all replicas at that moment."""
    ended: list[Sequence] = []
    stage = SCENARIOS[name].stage(seed, START_SECONDS, on_end=ended.append)
    stage.fleet.settle(START_SECONDS + until_seconds)
    return ended, "".join(replica.page.text() for replica in stage.fleet.replicas)


def late_ratio(
    ended: list[Sequence], since_seconds: float, until_seconds: float, threshold_seconds: float = 2.5
) -> float:
    """Which part of the requests that were sent then had no first token in time."""
    sent = [
        sequence
        for sequence in ended
        if since_seconds <= (sequence.sent_at_seconds or 0.0) - START_SECONDS < until_seconds
    ]
    late = [each for each in sent if each.client_ttft_seconds is None or each.client_ttft_seconds > threshold_seconds]
    return len(late) / len(sent)


def test_every_story_of_the_plan_is_there() -> None:
    assert set(SCENARIOS) >= WANTED


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_story_begins(name: str) -> None:
    """Two minutes of each: requests come and end, and all in order."""
    ended, page = story(name, 3, 120.0)
    assert len(ended) > 20
    assert "vllm:generation_tokens_total" in page
    assert all(sequence.state == "finished" for sequence in ended)


@pytest.mark.parametrize("seed", [0])
def test_demo_is_well_then_overloaded_and_four_replicas_bring_it_back(seed: int) -> None:
    """TTFT within 2.5 s for all in the first eight minutes, for nearly none from a minute after the step on."""
    ended: list[Sequence] = []
    stage = SCENARIOS["demo"].stage(seed, START_SECONDS, on_end=ended.append)
    stage.fleet.settle(START_SECONDS + 720)
    stage.fleet.scale(4, START_SECONDS + 720)
    stage.fleet.settle(START_SECONDS + 1200)
    assert late_ratio(ended, 0, 470) == 0.0
    assert late_ratio(ended, 560, 720) > 0.95
    assert late_ratio(ended, 1080, 1180) == 0.0


def test_kv_exhaustion_preempts() -> None:
    ended, _ = story("kv_exhaustion", 0, 1500.0)
    assert sum(sequence.preemptions for sequence in ended) > 50


def test_hit_collapse_loses_its_prefix() -> None:
    """Before half time two thirds of the prompt tokens are cached, after it none."""
    scenario = SCENARIOS["hit_collapse"]
    before, after = scenario.prompts, scenario.prompts
    assert before is not None
    assert after is not None
    assert (before(1799.0).systems, after(1801.0).systems) == (1, 1_000_000)


def test_slow_pod_is_slow_and_the_other_is_not() -> None:
    ended, _ = story("slow_pod", 0, 1500.0)
    by_replica = {
        name: [
            (each.last_token_at_seconds or 0.0) - (each.first_token_at_seconds or 0.0)
            for each in ended
            if each.replica == name and each.arrived_at_seconds > START_SECONDS + 1210
        ]
        for name in ("sim-0", "sim-1")
    }
    means = {name: sum(times) / len(times) for name, times in by_replica.items()}
    assert means["sim-1"] > 3 * means["sim-0"]


def test_zero_traffic_is_silent_and_healthy() -> None:
    ended, page = story("zero_traffic", 0, 2000.0)
    assert max((each.sent_at_seconds or 0.0) for each in ended) <= START_SECONDS + 1200
    assert 'vllm:num_requests_running{engine="0",model_name="llama8b"} 0.0' in page


def test_rolling_restart_changes_the_buckets() -> None:
    """By the end both replicas have the new TTFT edges, and counters that began again."""
    _, page = story("rolling_restart", 0, 1800.0)
    assert page.count('vllm:time_to_first_token_seconds_bucket{engine="0",le="12.8"') == 2
    assert 'vllm:time_to_first_token_seconds_bucket{engine="0",le="2560.0"' not in page


def test_pd_starvation_shows_where_it_starves() -> None:
    """Decode starvation: the decode engine's sequences pile up; prefill starvation: the prefill engine's queue does."""
    loads = {}
    for name in ("pd_decode_starvation", "pd_prefill_starvation"):
        prompts = SCENARIOS[name].prompts
        assert prompts is not None
        starving = replace(SCENARIOS[name], prompts=lambda _, of=prompts: of(1900.0))
        stage = starving.stage(0, START_SECONDS)
        stage.fleet.settle(START_SECONDS + 180)
        loads[name] = {
            role: max(replica.load for replica in stage.fleet.replicas if replica.role == role)
            for role in ("prefill", "decode")
        }
    assert loads["pd_decode_starvation"]["decode"] > 200 > loads["pd_decode_starvation"]["prefill"]
    assert loads["pd_prefill_starvation"]["prefill"] > 200 > loads["pd_prefill_starvation"]["decode"]


@pytest.mark.parametrize("name", ["steady", "remote_kv_slow"])
def test_golden(name: str) -> None:
    """Ten minutes of a story are the same to the byte; SLO_AGENT_WRITE_GOLDEN=1 writes them anew: read the diff."""
    ended, page = story(name, 42, 600.0)
    told = {
        "requests": len(ended),
        "prompt_tokens": sum(each.ask.prompt_tokens for each in ended),
        "generated_tokens": sum(each.generated_tokens for each in ended),
        "cached_tokens": sum(each.cached_tokens for each in ended),
        "external_tokens": sum(each.external_tokens for each in ended),
        "mean_ttft_seconds": sum(each.client_ttft_seconds or 0.0 for each in ended) / len(ended),
        "pages_sha256": sha256(page.encode()).hexdigest(),
    }
    kept = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    if os.environ.get("SLO_AGENT_WRITE_GOLDEN"):
        GOLDEN.write_text(json.dumps({**kept, name: told}, indent=1, sort_keys=True) + "\n")
        return
    assert told == kept.get(name)
