"""Our figures of a real vLLM beside those of the client that drives it, `vllm bench serve`.

Two agents watch: `slo-agent run`, asked over its API, and `slo-agent record`, whose recording `slo-agent report` reads.
Both send canaries, so a request is one of the bench's or a canary of either, and every count must come out exactly. The
running agent leaves its own in; `report` takes out those that its recording tells of.
"""

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from live_agent import RunningAgent, answer_of, slo_agent, write_config
from live_figures import tell
from live_process import Server, until
from live_vllm import RealVllm

from probes.recording import Entry, read_entries

pytestmark = pytest.mark.real
Canary = dict[str, Any]
# Prompts long enough that a first token takes tenths of a second, where vLLM's buckets are wide.
LOAD = {
    "num_prompts": 70,
    "request_rate": 1.5,
    "random_input_len": 1800,
    "random_output_len": 60,
    "random_range_ratio": 0.4,
    "seed": 7,
}
QUIET_SECONDS = 0.4  # around a reading at which a stretch may begin or end: no canary is under way
WAIT_SECONDS = 120.0
PERCENTILES = {"p50": 0.5, "p99": 0.99}
# Our count: the bench's and the canaries' names for it.
TOKENS = {
    "generation_tokens": ("total_output_tokens", "output_tokens"),
    "prompt_tokens": ("total_input_tokens", "prompt_tokens"),
}
COUNTS = ("requests_finished", *TOKENS)


@dataclass(frozen=True)
class Seen:
    """One side's figures of one stretch, and who sent requests in it."""

    signals: dict[str, Any]
    bench: dict[str, Any]
    canaries: Sequence[Canary]

    def client(self, signal: str) -> list[float]:
        """What everyone who sent a request has measured, seconds each."""
        of_bench = self.bench["ttfts" if signal == "ttft_seconds" else "latencies"]
        return [*of_bench, *(canary[signal] for canary in self.canaries)]

    def counted(self) -> dict[str, float | None]:
        """What the agent has counted."""
        return {name: self.signals[name] for name in COUNTS}

    def sent(self) -> dict[str, float]:
        """The sums over all who sent requests."""
        requests = self.bench["completed"] + len(self.canaries)
        tokens = {
            name: self.bench[of_bench] + sum(canary[of_canary] or 0 for canary in self.canaries)
            for name, (of_bench, of_canary) in TOKENS.items()
        }
        return {"requests_finished": requests, **tokens}


def config_of(url: str, **more: object) -> dict[str, Any]:
    """One target. Its name makes the first look come well before the first canary (phases hang on names)."""
    return {
        "tick_seconds": 1,
        "targets": [{"name": "engine", "url": url}],
        "scrape": {"interval_seconds": 2, "timeout_seconds": 2, "down_after_seconds": 30},
        "gpu": {"enabled": "no"},
        "subtract_canaries": False,
        "canaries": [{"kind": "chat", "interval_seconds": 10}],
        "slos": [
            {"name": "canary", "sli": "availability", "source": "canary", "objective_ratio": 0.99},
            {"name": "ttft", "sli": "ttft", "objective_ratio": 0.99, "threshold_seconds": 2.5},
        ],
        **more,
    }


@pytest.fixture(scope="module")
def seen(vllm: RealVllm, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """Both sides of one run of the bench: "live" over the API's five minutes, "report" over the recorded stretch."""
    folder = tmp_path_factory.mktemp("bench")
    recording = folder / "run.jsonl.gz"
    record_config = write_config(config_of(vllm.url), folder / "record.yaml")
    agent = RunningAgent(config_of(vllm.url), folder)
    recorder = Server([agent.server.command[0], "record", "-c", record_config, "--out", recording], folder / "rec.log")
    try:
        until("the agent has read a page", WAIT_SECONDS, lambda: agent.health("engine") == "up")
        recorder.start()

        def canaries() -> list[list[Canary]]:
            return [sent_by(agent), probes_in(recording)]

        start = quiet_reading(recording, canaries, after=time.time())
        bench = vllm.bench(**LOAD)
        end = quiet_reading(recording, canaries, after=time.time())
        assert recorder.interrupt() == 0
        live = settled(agent, bench, probes_in(recording))
        report = answer_of("report", recording, "--from", repr(start), "--to", repr(end))
        sent = sent_by(agent)
        within = [canary for canary in sent if start < canary["at"] <= end]
    finally:
        agent.server.stop()
        recorder.stop()
    assert bench["failed"] == 0
    assert {canary["outcome"] for canary in within} == {"ok"}
    return {"live": live, "report": Seen(report["total"]["signals"], bench, within)}


def quiet_reading(recording: Path, canaries: Callable[[], list[list[Canary]]], after: float) -> float:
    """When the engine was read after `after` while nothing was running: what began before it has ended before it."""

    def look() -> float | None:
        of_each = canaries()
        known_until = min(max((c["at"] for c in own), default=0.0) for own in of_each)  # later ones are not told yet
        busy = [(c["at"] - QUIET_SECONDS, c["at"] + (c["e2e_seconds"] or 0.0) + QUIET_SECONDS) for c in chain(*of_each)]
        for entry in entries(recording):
            at = entry.at_seconds
            is_idle = entry.source == "vllm" and "vllm:num_requests_running" in entry.body and running(entry.body) == 0
            if is_idle and after < at < known_until and not any(begin <= at <= end for begin, end in busy):
                return at
        return None

    return until("a reading between two canaries", WAIT_SECONDS, look)


def settled(agent: RunningAgent, bench: dict[str, Any], others: list[Canary]) -> Seen:
    """The live figures when every canary that ended has been read as well, which one more look at the page takes."""
    newest: list[Seen] = []

    def look() -> bool:
        own = sent_by(agent)
        signals = agent.api("signals", window_seconds="300")["total"]["signals"]
        newest.append(Seen(signals, bench, [*own, *others]))
        return newest[-1].counted() == newest[-1].sent()

    with contextlib.suppress(AssertionError):  # the tests tell by how much it is off
        until("all that was sent is counted", WAIT_SECONDS / 4, look)
    return newest[-1]


@pytest.mark.parametrize("side", ["report", "live"])
@pytest.mark.parametrize("signal", ["ttft_seconds", "e2e_seconds"])
def test_percentiles_hold_those_of_the_clients(seen: dict[str, Seen], side: str, signal: str) -> None:
    """The server's histogram starts its clock later and stops it earlier than a client: by the mean difference, told.

    A single request's difference lies anywhere from 0 to about twice the mean, so that much room is left.
    """
    one = seen[side]
    server, client = one.signals[signal], one.client(signal)
    difference = fmean(client) - server["mean"]
    tell(f"{side} {signal}: n={len(client)} client mean {fmean(client):.4f} s, mean difference {difference:.4f} s")
    for name, quantile in PERCENTILES.items():
        figure, felt = server[name], percentile(client, quantile)
        holds = figure["low"] <= felt - difference <= figure["high"]
        tell(
            f"  {name}: client {felt:.4f} s, less the difference {felt - difference:.4f} s, "
            f"agent [{figure['low']:g}, {figure['high']:g}] s: {'holds' if holds else 'beside it by less than it'}; "
            f"the bench alone {percentile(one.client(signal)[: one.bench['completed']], quantile):.4f} s"
        )
        assert figure["count"] == len(client)
        assert figure["low"] <= felt
        assert felt - 2 * difference <= figure["high"]


@pytest.mark.parametrize("side", ["report", "live"])
def test_counts_are_the_clients_exactly(seen: dict[str, Seen], side: str) -> None:
    """Requests and tokens of the bench, and of the canaries of both agents; nothing else was sent."""
    one = seen[side]
    counted, sent = one.counted(), one.sent()
    tell(f"{side}: {one.bench['completed']} bench requests and {len(one.canaries)} canaries: counted {counted}")
    assert len(one.canaries) > 5
    assert counted == sent


def test_the_share_of_our_own_requests_is_told(seen: dict[str, Seen]) -> None:
    one = seen["report"].signals
    every = one["canaries"] + one["requests_finished"]
    assert one["probe_share_ratio"] == pytest.approx(one["canaries"] / every)


def test_probe_answers_for_a_real_server(vllm: RealVllm) -> None:
    said = answer_of("probe", vllm.url)
    tell(f"probe: {json.dumps({key: said[key] for key in ('outcome', 'ttft_seconds', 'tpot_seconds', 'e2e_seconds')})}")
    assert said["outcome"] == "ok"
    assert 0 < said["ttft_seconds"] <= said["e2e_seconds"]
    assert said["output_tokens"] == 16
    assert said["prompt_tokens"] > 0


def test_a_refused_probe_is_an_answer_too(vllm: RealVllm) -> None:
    ended = slo_agent("probe", vllm.url, "--model", "not-this-one", "--json")
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["outcome"] != "ok"


def test_inspect_names_what_a_real_page_says(vllm: RealVllm) -> None:
    said = answer_of("inspect", vllm.url)
    tell(f"inspect: {said['system']} {said['version']}, {said['samples']} samples, {len(said['signals'])} signals")
    assert said["system"] == "vllm"
    assert said["engines"] == [{"engine": "0", "model": "tiny"}]
    wanted = ("requests_running", "requests_waiting", "generation_tokens_total", "kv_usage_ratio")
    assert {name: isinstance(said["signals"].get(name), int | float) for name in wanted} == dict.fromkeys(wanted, True)
    assert said["warnings"] == []


def entries(recording: Path) -> list[Entry]:
    return list(read_entries(recording)) if recording.exists() and recording.stat().st_size else []


def sent_by(agent: RunningAgent) -> list[Canary]:
    """Its canaries; a missed one was never sent."""
    return [probe for probe in agent.api("probes")["probes"] if probe["outcome"] != "missed"]


def probes_in(recording: Path) -> list[Canary]:
    """The canaries of whoever recorded, with the keys that the API gives them."""
    bodies = (json.loads(entry.body) for entry in entries(recording) if entry.source == "probe")
    return [{**body, "at": body["at_seconds"]} for body in bodies if body["outcome"] != "missed"]


def percentile(values: Sequence[float], quantile: float) -> float:
    """The linear one, as numpy and the bench compute it."""
    ordered, rank = sorted(values), quantile * (len(values) - 1)
    below = int(rank)
    return ordered[below] + (ordered[min(below + 1, len(values) - 1)] - ordered[below]) * (rank - below)


def running(page: str) -> float:
    lines = [line for line in page.splitlines() if line.startswith("vllm:num_requests_running{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
