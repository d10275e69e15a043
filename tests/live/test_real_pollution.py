"""Canaries among the load of `vllm bench serve` on a real vLLM: what is left without them is the bench's, exactly.

The bench alone is the truth: how many requests, tokens and steps it has caused, and what each of its first tokens took.
SLO_AGENT_POLLUTION_CANARIES says how many canaries (200 take seven minutes); fewer show the same.
"""

import contextlib
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

import pytest
from live_agent import RunningAgent, write_config
from live_figures import tell
from live_http import get_text, post
from live_process import until
from live_vllm import RealVllm
from prometheus_client.parser import text_string_to_metric_families as read_metrics

from probes.names.vllm import DEFAULT_EDGES

pytestmark = pytest.mark.real
CANARIES = int(os.environ.get("SLO_AGENT_POLLUTION_CANARIES", "40"))
EVERY_SECONDS = 2.0
LOAD = {
    "num_prompts": int(CANARIES * EVERY_SECONDS),
    "request_rate": 1.0,
    "random_input_len": 700,
    "random_output_len": 40,
    "random_range_ratio": 0.4,
    "seed": 11,
}
WAIT_SECONDS = 120.0
LATENCIES = ("ttft_seconds", "tpot_seconds", "e2e_seconds", "queue_seconds")
CONFIG = {
    "tick_seconds": 1,
    "scrape": {"interval_seconds": 3, "timeout_seconds": 2},
    "gpu": {"enabled": "no"},
    "canary_limits": {"tokens_per_hour": 10_000_000, "idle_tokens_per_hour": 10_000_000, "max_requests_waiting": 100},
    "canaries": [
        {"kind": "chat", "interval_seconds": EVERY_SECONDS},
        {"kind": "kv_reuse", "interval_seconds": 10 * EVERY_SECONDS, "prompt_tokens": 256, "gaps_seconds": [0.2]},
    ],
    "slos": [{"name": "ttft", "sli": "ttft", "objective_ratio": 0.99, "threshold_seconds": 2.5}],
}


@dataclass(frozen=True)
class Seen:
    """Both sides of one run, and the state of an SLO before anybody but canaries asked."""

    signals: dict[str, Any]
    bench: dict[str, Any]
    probes: list[dict[str, Any]]
    metrics: str
    engine: str
    idle: dict[str, Any]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, vllm_details: RealVllm) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("pollution")
    config = {**CONFIG, "targets": [{"name": "engine", "url": vllm_details.url}]}
    agent = RunningAgent(config, folder)
    try:
        until("canaries are counted by the engine", WAIT_SECONDS, lambda: (signals(agent)["canaries"] or 0) >= 5)
        until("they are found there", WAIT_SECONDS, lambda: (signals(agent)["probe_share_ratio"] or 0) == 1.0)
        (idle,) = agent.api("slos")["slos"]
        bench = vllm_details.bench(**LOAD)
        paused = {
            **config,
            "canary_limits": {"enabled": False},
            "server": {"listen": agent.url.removeprefix("http://")},
        }
        write_config(paused, folder / "agent.yaml")
        post(f"{agent.url}/-/reload")  # nothing of ours is under way when the figures are read
        wanted = bench["completed"]
        with contextlib.suppress(AssertionError):  # the tests tell by how much it is off
            until("every request is counted", WAIT_SECONDS / 4, lambda: signals(agent)["requests_finished"] == wanted)
        yield Seen(
            signals(agent),
            bench,
            agent.api("probes")["probes"],
            get_text(f"{agent.url}/metrics"),
            get_text(f"{vllm_details.url}/metrics"),
            idle,
        )
    finally:
        agent.server.stop()


def signals(agent: RunningAgent) -> dict[str, Any]:
    answer: dict[str, Any] = agent.api("signals", window_seconds="3600")["total"]["signals"]
    return answer


def test_without_users_there_is_no_user_traffic(seen: Seen) -> None:
    """The engine has counted canaries all the time; none of them is an event of the users' SLO."""
    tell(f"pollution: before the bench the SLO is {seen.idle['state']}")
    assert seen.idle["state"] == "no_traffic"


def test_counts_are_the_benchs_alone(seen: Seen) -> None:
    bench, counted = seen.bench, seen.signals
    truth = {
        "requests_finished": bench["completed"],
        "generation_tokens": bench["total_output_tokens"],
        "prompt_tokens": bench["total_input_tokens"],
        **dict.fromkeys(LATENCIES, bench["completed"]),
        "itl_seconds": bench["total_output_tokens"] - bench["completed"],
    }
    ours = {name: counted[name]["count"] if name.endswith("_seconds") else counted[name] for name in truth}
    tell(f"pollution: {counted['canaries']:.0f} chat canaries, share {counted['probe_share_ratio']:.3f}; users {ours}")
    tell(f"pollution: the bench alone {truth}")
    assert counted["canaries"] >= CANARIES
    assert ours == truth


@pytest.mark.parametrize("signal", ["ttft_seconds", "e2e_seconds", "tpot_seconds"])
def test_percentiles_are_the_benchs_to_one_bucket_edge(seen: Seen, signal: str) -> None:
    """The client's clock begins sooner and ends later than the engine's, by milliseconds: the next edge at most."""
    felt, edges = bench_figures(seen.bench, signal), (0.0, *DEFAULT_EDGES[signal])
    tell(f"pollution {signal}: mean of the bench {fmean(felt):.4f} s, of the users {seen.signals[signal]['mean']} s")
    for name, quantile in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        figure, truth = seen.signals[signal][name], percentile(felt, quantile)
        tell(f"  {name}: bench {truth:.4f} s, users [{figure['low']:g}, {figure['high']:g}] s")
        assert edges.index(figure["low"]) - 1 <= bisect_left(edges, truth)
        assert bisect_left(edges, truth) <= edges.index(figure["high"]) + 1


def test_buckets_are_the_benchs_to_one_edge(seen: Seen) -> None:
    """The published histograms: engine minus contribution, bucket by bucket beside what the bench felt."""
    of = {source: cumulative(seen.metrics, "slo_agent_ttft_seconds", source) for source in ("engine", "contribution")}
    users = {edge: count - of["contribution"].get(edge, 0.0) for edge, count in of["engine"].items()}
    felt = bench_figures(seen.bench, "ttft_seconds")
    edges = sorted(users)
    for edge in edges:
        if 0 < users[edge] < seen.bench["completed"]:
            tell(f"  ttft <= {edge:g} s: users {users[edge]:.0f}, bench {sum(t <= edge for t in felt)}")
    assert users[edges[-1]] == seen.bench["completed"]
    for below, edge in pairwise(edges):
        assert users[below] <= sum(t <= edge for t in felt) + 1e-9 or users[below] <= users[edge]


def test_reuse_is_seen_and_counted_to_the_token(seen: Seen) -> None:
    """Warm sooner than cold; and the engine's hits are the users' and ours, to the token.

    The bench's prompts are random over a small vocabulary, so that some begin alike: those are hits of its own.
    """
    pairs = [p["figures"] for p in seen.probes if p["kind"] == "kv_reuse" and p["outcome"] == "ok"]
    pairs = [pair for pair in pairs if pair["warm_ttft_seconds"] is not None]
    cold = fmean(pair["cold_ttft_seconds"] for pair in pairs)
    warm = fmean(pair["warm_ttft_seconds"] for pair in pairs)
    asked, hits = (counter(seen.engine, f"vllm:prefix_cache_{name}_total") for name in ("queries", "hits"))
    users = seen.bench["total_input_tokens"]
    users_hits = seen.signals["prefix_cache_hit_ratio"] * users
    tell(f"pollution: {len(pairs)} pairs, TTFT cold {cold * 1000:.0f} ms, warm {warm * 1000:.0f} ms")
    tell(f"pollution: the engine found {hits:.0f} of {asked:.0f} tokens; of the users' {users}: {users_hits:g}")
    assert pairs
    assert warm < cold
    assert users_hits == pytest.approx(round(users_hits / 16) * 16)  # whole blocks: nothing of ours is left in it
    assert users_hits < 0.05 * users


def counter(page: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name + "{"))


def bench_figures(bench: dict[str, Any], signal: str) -> list[float]:
    """What the bench measured of each of its requests, seconds."""
    if signal == "ttft_seconds":
        return list(bench["ttfts"])
    if signal == "e2e_seconds":
        return list(bench["latencies"])
    return [sum(gaps) / len(gaps) for gaps in bench["itls"] if gaps]


def cumulative(page: str, name: str, source: str) -> dict[float, float]:
    found: dict[float, float] = {}
    for family in read_metrics(page):
        for sample in family.samples if family.name == name else ():
            if sample.name == f"{name}_bucket" and sample.labels["source"] == source:
                edge = float(sample.labels["le"])
                found[edge] = found.get(edge, 0.0) + sample.value
    return found


def percentile(values: Sequence[float], quantile: float) -> float:
    ordered, rank = sorted(values), quantile * (len(values) - 1)
    below = int(rank)
    return ordered[below] + (ordered[min(below + 1, len(values) - 1)] - ordered[below]) * (rank - below)
