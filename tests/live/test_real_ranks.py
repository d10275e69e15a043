"""A real vLLM of two data-parallel ranks behind two API servers, whose page is one of several processes.

The page has no process start time and no _created series then, and each rank is an engine of its own on it.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from live_agent import RunningAgent, answer_of, write_config
from live_figures import tell
from live_http import get_text, post
from live_parts import VLLM_SCRIPT, free_port, vllm_folder
from live_process import Server, command_line, descendants, until
from live_requests import complete_all

from probes.page import SystemPage

pytestmark = pytest.mark.real
START_SECONDS = 900.0
SEEN_SECONDS = 120.0
TOKENS = 40
AT_ONCE = 4
CANARY_TOKENS = 16
ENGINES = [{"engine": "0", "model": "tiny"}, {"engine": "1", "model": "tiny"}]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    port = free_port()
    server = Server(["bash", VLLM_SCRIPT, "ranks", vllm_folder(), str(port)], tmp_path_factory.mktemp("ranks") / "log")
    url = f"http://127.0.0.1:{port}"
    try:
        server.start_until("vLLM answers /health", START_SECONDS, lambda: get_text(f"{url}/health") == "")
        complete_all(url, range(4), TOKENS, at_once=2)  # what is compiled at a first request
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def url(ranks: Server) -> str:
    return f"http://127.0.0.1:{ranks.command[-1]}"


@pytest.fixture
def agent(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """One that has read a page already: what comes now, it counts."""
    config = {
        "tick_seconds": 1,
        "targets": [{"name": "engine", "url": url}],
        "scrape": {"interval_seconds": 2, "timeout_seconds": 2},
        "gpu": {"enabled": "no"},
        "slos": [{"name": "ttft", "sli": "ttft", "objective_ratio": 0.99, "threshold_seconds": 2.5}],
    }
    started = RunningAgent(config, tmp_path_factory.mktemp("agent"))
    try:
        until("a page", SEEN_SECONDS, lambda: started.health("engine") == "up")
        yield started
    finally:
        started.server.stop()


@pytest.fixture
def asking(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Asking"]:
    """One whose canaries ask one rank after the other."""
    config = {
        "tick_seconds": 1,
        "targets": [{"name": "engine", "url": url}],
        "scrape": {"interval_seconds": 2, "timeout_seconds": 2},
        "gpu": {"enabled": "no"},
        "canaries": [{"kind": "chat", "interval_seconds": 3, "ranks": True, "first_token_timeout_seconds": 8}],
        "canary_limits": {"tokens_per_hour": 10_000_000, "idle_tokens_per_hour": 10_000_000},
    }
    folder, before = tmp_path_factory.mktemp("asking"), generated(url)
    started = Asking(RunningAgent(config, folder), config, folder, before)
    try:
        yield started
    finally:
        started.agent.server.stop()


@dataclass(frozen=True)
class Asking:
    """An agent, and what the ranks had counted before it."""

    agent: RunningAgent
    config: dict[str, Any]
    folder: Path
    before: dict[str, float]

    def pause(self) -> None:
        """No canary is sent from now on; one that is under way comes to its end."""
        listen = {"listen": self.agent.url.removeprefix("http://")}
        write_config({**self.config, "canary_limits": {"enabled": False}, "server": listen}, self.folder / "agent.yaml")
        post(f"{self.agent.url}/-/reload")

    def probes(self) -> list[dict[str, Any]]:
        """Canaries that were sent to a rank."""
        unsent = ("missed", "skipped_paused")
        return [one for one in self.agent.api("probes")["probes"] if one["rank"] and one["outcome"] not in unsent]

    def answered(self) -> dict[str, int]:
        """How many were, by rank."""
        return {rank: sum(one["rank"] == rank and one["outcome"] == "ok" for one in self.probes()) for rank in "01"}

    def failed(self) -> dict[str, int]:
        """How many were not, by rank."""
        return {rank: sum(one["rank"] == rank and one["outcome"] != "ok" for one in self.probes()) for rank in "01"}


def signals(agent: RunningAgent) -> dict[str, Any]:
    return dict(agent.api("signals", window_seconds="300")["targets"]["engine"]["signals"])


def generated(url: str) -> dict[str, float]:
    """Tokens by rank, as the page has them."""
    page = SystemPage("vllm").read(get_text(f"{url}/metrics"), "engine", 0.0)
    return {one.engine: one.value for one in page.samples if one.signal == "generation_tokens_total"}


def test_both_ranks_are_listed_and_their_sum_is_what_was_sent(url: str, agent: RunningAgent) -> None:
    """Two API servers share the requests, two ranks the work; no token is lost between them or counted twice."""
    said = answer_of("inspect", url)
    before, requests = generated(url), 16
    came = complete_all(url, range(100, 100 + requests), TOKENS, AT_ONCE)
    until("all are counted", SEEN_SECONDS, lambda: signals(agent)["requests_finished"] == requests)
    seen, after = signals(agent), generated(url)
    shares = {engine: after[engine] - before[engine] for engine in after}
    tell(f"two ranks, two API servers: {requests} requests, tokens by rank {shares}, ITL {itl_by_rank(agent)} s")
    assert (said["engines"], said["warnings"]) == (ENGINES, [])
    assert seen["generation_tokens"] == came == requests * TOKENS == sum(shares.values())
    assert seen["ttft_seconds"]["p50"]["count"] == seen["e2e_seconds"]["p50"]["count"] == requests
    assert min(shares.values()) > 0, "one rank did nothing, so nothing was added up"


def test_one_slow_rank_is_seen_beside_the_other(url: str, ranks: Server, agent: RunningAgent) -> None:
    """One rank's processes are stopped four fifths of the time; all requests together hide it, by engine it stands."""
    with held_back(processes_of_rank(ranks, 1)):
        complete_all(url, range(200, 250), TOKENS, AT_ONCE)
        by_rank = until("both ranks' gaps", SEEN_SECONDS, lambda: both(itl_by_rank(agent)))
    tell(f"one rank held back: ITL by rank {by_rank} s, of both {signals(agent)['itl_seconds']['mean']:.4f} s")
    assert by_rank["1"] > 2 * by_rank["0"]
    page = get_text(f"{agent.url}/metrics")
    assert 'slo_agent_engine_itl_mean_seconds{engine="1",target="engine"}' in page


def test_each_ranks_canary_is_answered_and_counted_by_that_rank(url: str, asking: Asking) -> None:
    """The header is heeded behind two API servers; and what the ranks have counted is all taken out again."""
    until("each rank was asked three times", SEEN_SECONDS, lambda: min(asking.answered().values()) >= 3)
    asking.pause()
    until("the ranks have counted what they answered", SEEN_SECONDS, lambda: answers(url, asking) == asking.answered())
    until("all are found on the page", SEEN_SECONDS, lambda: signals(asking.agent)["probe_share_ratio"] == 1.0)
    seen = signals(asking.agent)
    tell(f"canaries by rank {asking.answered()}, counted by rank {answers(url, asking)}")
    assert asking.failed() == {"0": 0, "1": 0}
    assert (seen["probe_share_ratio"], seen["requests_finished"], seen["generation_tokens"]) == (1.0, 0, 0)


def test_one_dead_rank_behind_a_living_port_is_told_by_its_canaries(url: str, ranks: Server, asking: Asking) -> None:
    """Rank 1 computes nothing any more; /health is well, and every other canary is answered."""
    until("both are well", SEEN_SECONDS, lambda: min(asking.answered().values()) >= 1)
    with stopped(processes_of_rank(ranks, 1)):
        before = asking.answered()
        until("rank 1 is missed twice", SEEN_SECONDS, lambda: asking.failed()["1"] >= 2)
        until("rank 0 answers", SEEN_SECONDS, lambda: asking.answered()["0"] >= before["0"] + 2)
        failed, outcomes = asking.failed(), {one["outcome"] for one in asking.probes()}
        is_well = get_text(f"{url}/health") == ""
    tell(f"rank 1 stopped: failed canaries by rank {failed}, outcomes {sorted(outcomes)}")
    assert is_well
    assert failed["0"] == 0
    assert outcomes == {"ok", "first_token_timeout"}


def answers(url: str, asking: Asking) -> dict[str, float]:
    """What each rank has generated since, in canaries' answers."""
    return {rank: (after - asking.before[rank]) / CANARY_TOKENS for rank, after in generated(url).items()}


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """They do nothing meanwhile."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def itl_by_rank(agent: RunningAgent) -> dict[str, float]:
    return dict(signals(agent)["itl_mean_seconds_by_engine"])


def both(by_rank: dict[str, float]) -> dict[str, float] | None:
    return by_rank if len(by_rank) == 2 else None


def processes_of_rank(ranks: Server, rank: int) -> list[int]:
    """The engine process of a rank and its workers."""
    family = descendants(ranks.pid)
    (engine,) = [pid for pid in family if command_line(pid).startswith(f"VLLM::EngineCore_DP{rank}")]
    return [engine, *descendants(engine)]


@contextmanager
def held_back(pids: list[int]) -> Iterator[None]:
    """Stopped for 80 ms of every 100."""
    is_over = threading.Event()

    def send(number: signal.Signals) -> None:
        for pid in pids:
            os.kill(pid, number)

    def hold() -> None:
        while not is_over.is_set():
            send(signal.SIGSTOP)
            time.sleep(0.08)
            send(signal.SIGCONT)
            time.sleep(0.02)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        send(signal.SIGCONT)
