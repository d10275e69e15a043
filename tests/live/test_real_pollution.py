"""Canaries among the load of `vllm bench serve` on a real vLLM: what is left without them is the bench's, exactly.

The bench alone is the truth: how many requests, tokens and steps it has caused, and what each of its requests took. The
times are the server's own, from the spans of the bench's requests: a client on a busy machine looks late by more than a
bucket is wide. What that client felt is told beside them.
SLO_AGENT_POLLUTION_CANARIES says how many canaries (200 take seven minutes); fewer show the same.
"""

import contextlib
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import pytest
from live_agent import RunningAgent, write_config
from live_figures import tell
from live_http import get_text, post
from live_parts import vllm_folder
from live_process import until
from live_spans import Listening, traced_environment
from live_vllm import RealVllm
from prometheus_client.parser import text_string_to_metric_families as read_metrics

from probes.names.vllm import DEFAULT_EDGES
from probes.spans.result import SpanResult

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
PREFIX = "bench-"
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
    """All sides of one run, and the state of an SLO before anybody but canaries asked. `spans` are the bench's."""

    signals: dict[str, Any]
    bench: dict[str, Any]
    spans: list[SpanResult]
    canary_spans: list[SpanResult]
    probes: list[dict[str, Any]]
    metrics: str
    engine: str
    idle: dict[str, Any]


@pytest.fixture(scope="module")
def listening() -> Iterator[Listening]:
    receiver = Listening()
    try:
        yield receiver
    finally:
        receiver.stop()


@pytest.fixture(scope="module")
def engine(listening: Listening, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    """A vLLM that tells how much of a prompt came from its cache, traces to us, and whom nobody asked before."""
    vllm = RealVllm(
        vllm_folder(),
        tmp_path_factory.mktemp("traced"),
        options=("--enable-prompt-tokens-details", *listening.options("grpc")),
        environment=traced_environment("grpc"),
    )
    vllm.start()
    try:
        yield vllm
    finally:
        vllm.stop()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, engine: RealVllm, listening: Listening) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("pollution")
    config = {**CONFIG, "targets": [{"name": "engine", "url": engine.url}]}
    agent = RunningAgent(config, folder)
    try:
        until("canaries are counted by the engine", WAIT_SECONDS, lambda: (signals(agent)["canaries"] or 0) >= 5)
        until("they are found there", WAIT_SECONDS, lambda: (signals(agent)["probe_share_ratio"] or 0) == 1.0)
        (idle,) = agent.api("slos")["slos"]
        bench = engine.bench(**LOAD, request_id_prefix=PREFIX)
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
            listening.of_bench(PREFIX, wanted),
            [span for span in listening.spans if span.is_canary],
            agent.api("probes")["probes"],
            get_text(f"{agent.url}/metrics"),
            get_text(f"{engine.url}/metrics"),
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
    """A canary beside an edge may be taken from the next bucket: by no more are the users' figures off."""
    took, felt, edges = bench_took(seen, signal), bench_felt(seen.bench, signal), (0.0, *DEFAULT_EDGES[signal])
    late = sorted(there - here for here, there in zip(took, felt, strict=True))
    tell(
        f"pollution {signal}: mean of the bench {fmean(took):.4f} s, of the users {seen.signals[signal]['mean']} s; "
        f"the client looks late by {late[0] * 1e3:.1f} to {late[-1] * 1e3:.1f} ms"
    )
    for name, quantile in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        figure, (below, above), theirs = seen.signals[signal][name], around(took, quantile), around(felt, quantile)
        tell(
            f"  {name}: bench {below:.4f} to {above:.4f} s (its client {theirs[0]:.4f} to {theirs[1]:.4f}), "
            f"users [{figure['low']:g}, {figure['high']:g}] s"
        )
        assert bisect_left(edges, above) >= edges.index(figure["low"])
        assert bisect_left(edges, below) <= edges.index(figure["high"]) + 1


@pytest.mark.parametrize("signal", ["ttft_seconds", "e2e_seconds", "tpot_seconds"])
def test_published_buckets_have_every_canary(seen: Seen, signal: str) -> None:
    """The engine's buckets are the bench's and the canaries', by their spans; of ours no one is missing in the end.

    In which bucket a canary lies is an interval as wide as client and engine are taken to be apart. An engine whose own
    front end starves is further apart than that, so here it is told, and not held, how many were beyond.
    """
    engine, low, high = (
        cumulative(seen.metrics, f"slo_agent_{signal}", source)
        for source in ("engine", "contribution_low", "contribution_high")
    )
    took, canaries = bench_took(seen, signal), took_by(seen.canary_spans, signal)
    for edge in sorted(engine):
        bench, ours = (sum(one <= edge for one in times) for times in (took, canaries))
        least, most = low.get(edge, 0.0), high.get(edge, 0.0)
        if most < len(canaries):
            tell(f"  {signal} <= {edge:g}: canaries {most:.0f} to {least:.0f}, by their spans {ours}; bench {bench}")
        assert engine[edge] == bench + ours
        assert most <= least
    assert least == most == len(canaries)


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
    assert users_hits < 0.05 * users * LOAD["num_prompts"] / 80  # the more prompts, the more of them begin alike


def counter(page: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name + "{"))


def bench_took(seen: Seen, signal: str) -> list[float]:
    """What the server says each of the bench's requests took, seconds."""
    return took_by(seen.spans, signal)


def took_by(spans: Sequence[SpanResult], signal: str) -> list[float]:
    """Without those that have no such figure."""
    figures: Iterator[float | None] = (getattr(span, signal) for span in spans)
    return [one for one in figures if one is not None]


def bench_felt(bench: dict[str, Any], signal: str) -> list[float]:
    """What the bench's client measured of each of its requests, seconds."""
    if signal == "ttft_seconds":
        return list(bench["ttfts"])
    if signal == "e2e_seconds":
        return list(bench["latencies"])
    rows = zip(bench["latencies"], bench["ttfts"], bench["output_lens"], strict=True)
    return [(whole - first) / (tokens - 1) for whole, first, tokens in rows if tokens > 1]


def cumulative(page: str, name: str, source: str) -> dict[float, float]:
    found: dict[float, float] = {}
    for family in read_metrics(page):
        for sample in family.samples if family.name == name else ():
            if sample.name == f"{name}_bucket" and sample.labels["source"] == source:
                edge = float(sample.labels["le"])
                found[edge] = found.get(edge, 0.0) + sample.value
    return found


def around(values: Sequence[float], quantile: float) -> tuple[float, float]:
    """The two values between which this quantile lies, whichever of its definitions one takes."""
    ordered, below = sorted(values), int(quantile * (len(values) - 1))
    return ordered[below], ordered[min(below + 1, len(values) - 1)]
