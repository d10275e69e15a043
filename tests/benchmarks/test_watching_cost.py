"""What watching costs the watched: a real vLLM under `vllm bench serve`, scraped each 1 s, each 5 s, and not at all.

One run of the bench, and the three take turns within it, some seconds each: what else the machine does hits all alike.
Each gap between two tokens belongs to the turn in which it ended (the bench's clock is the machine's monotonic one).
Two agents run all the time and are stopped (SIGSTOP) while it is not their turn. Ratios are of turns of one round.
"""

# ruff: noqa: T201 - a benchmark prints its table

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate
from statistics import median
from typing import Any

import pytest
from live_agent import RunningAgent
from live_http import get_text
from live_parts import vllm_folder
from live_vllm import RealVllm

pytestmark = pytest.mark.real
INTERVALS = (1, 5)
NOBODY = "nobody"
TURNS = (NOBODY, *(f"every {seconds} s" for seconds in INTERVALS))
TURN_SECONDS, SETTLING_SECONDS = 7.0, 1.0  # the first second of a turn is the change itself
LEAST_ROUNDS = 6
RUN_SECONDS = 180.0  # of the bench, about
WARM_UP = 24
LOAD = {"max_concurrency": 2, "random_input_len": 128, "random_output_len": 128, "seed": 7}


@dataclass
class Turn:
    """One stretch of seconds of the monotonic clock, and the gaps that ended in it, seconds each."""

    who: str
    began: float
    ended: float
    gaps: list[float] = field(default_factory=list)

    def tokens_per_second(self) -> float:
        return len(self.gaps) / (self.ended - self.began)


@pytest.fixture
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    started = RealVllm(vllm_folder(), tmp_path_factory.mktemp("vllm"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


def test_what_watching_costs(vllm: RealVllm, tmp_path_factory: pytest.TempPathFactory) -> None:
    with ExitStack() as stack:
        agents = {}
        for seconds in INTERVALS:
            agent = RunningAgent(config_of(vllm.url, seconds), tmp_path_factory.mktemp("agent"))
            stack.callback(agent.server.stop)
            stack.callback(send, agent, signal.SIGCONT)
            agents[f"every {seconds} s"] = agent
        warm = vllm.bench(num_prompts=WARM_UP, **LOAD)
        for agent in agents.values():
            send(agent, signal.SIGSTOP)
        page_seconds = median(seconds_of_a_page(vllm.url) for _ in range(20))
        prompts = int(RUN_SECONDS * warm["completed"] / warm["duration"])
        bench, turns = alternating(vllm, agents, prompts)
        for agent in agents.values():
            send(agent, signal.SIGCONT)
        assert {agent.health("engine") for agent in agents.values()} <= {"up", "stale"}
    rounds = within(bench, turns)
    print_table(rounds, page_seconds)
    assert len(rounds) >= LEAST_ROUNDS
    assert all(turn.gaps for one in rounds for turn in one.values())


def config_of(url: str, seconds: float) -> dict[str, Any]:
    """As it ships but for the interval, and without canaries: they are requests, and told by `slo-agent check`."""
    return {
        "targets": [{"name": "engine", "url": url}],
        "scrape": {"interval_seconds": seconds, "timeout_seconds": min(5, seconds)},
        "gpu": {"enabled": "no"},
        "slos": [
            {"name": "ttft", "sli": "ttft", "objective_ratio": 0.99, "threshold_seconds": 2.5},
            {"name": "itl", "sli": "itl", "objective_ratio": 0.99, "threshold_seconds": 0.1},
        ],
    }


def send(agent: RunningAgent, number: signal.Signals) -> None:
    if agent.server.exit_code() is None:
        os.kill(agent.server.pid, number)


def seconds_of_a_page(url: str) -> float:
    began = time.monotonic()
    get_text(f"{url}/metrics")
    return time.monotonic() - began


def alternating(
    vllm: RealVllm, agents: Mapping[str, RunningAgent], prompts: int
) -> tuple[dict[str, Any], Sequence[Turn]]:
    """One bench, and whose turn it was when; each round has them in another order."""
    result: dict[str, Any] = {}
    running = threading.Thread(target=lambda: result.update(vllm.bench(num_prompts=prompts, **LOAD)))
    running.start()
    turns: list[Turn] = []
    while running.is_alive():
        rounds, place = divmod(len(turns), len(TURNS))
        who = TURNS[(place + rounds) % len(TURNS)]
        if who in agents:
            send(agents[who], signal.SIGCONT)
        began = time.monotonic()
        running.join(TURN_SECONDS)
        turns.append(Turn(who, began + SETTLING_SECONDS, time.monotonic()))
        if who in agents:
            send(agents[who], signal.SIGSTOP)
    return result, turns


def within(bench: Mapping[str, Any], turns: Sequence[Turn]) -> list[Mapping[str, Turn]]:
    """The whole rounds that lie within the bench at its full load, each turn with its gaps."""
    spans = list(zip(bench["start_times"], bench["ttfts"], bench["itls"], strict=True))
    first, last = min(start for start, _, _ in spans), max(start for start, _, _ in spans)
    for start, ttft, gaps in spans:
        ends = list(accumulate(gaps, initial=start + ttft))[1:]
        for gap, end in zip(gaps, ends, strict=True):
            if turn := next((turn for turn in turns if turn.began < end <= turn.ended), None):
                turn.gaps.append(gap)
    size = len(TURNS)
    rounds = [turns[at : at + size] for at in range(0, len(turns) - size + 1, size)]
    return [{turn.who: turn for turn in one} for one in rounds if first < one[0].began and one[-1].ended < last]


def p99(gaps: Sequence[float]) -> float:
    return sorted(gaps)[int(0.99 * (len(gaps) - 1))]


def print_table(rounds: Sequence[Mapping[str, Turn]], page_seconds: float) -> None:
    print(f"\n{len(rounds)} rounds of {TURN_SECONDS:g} s turns; one page takes vLLM {page_seconds * 1e3:.1f} ms")
    print(f"{'scraped':<12}{'tokens/s':>10}{'ITL p50':>10}{'ITL p99':>10}   ratio to nobody, median [quartiles]")
    for who in TURNS:
        gaps = [gap for one in rounds for gap in one[who].gaps]
        rate = median(one[who].tokens_per_second() for one in rounds)
        print(f"{who:<12}{rate:>10.1f}{median(gaps) * 1e3:>7.1f} ms{p99(gaps) * 1e3:>7.1f} ms   ", end="")
        if who == NOBODY:
            print()
            continue
        tokens = [one[who].tokens_per_second() / one[NOBODY].tokens_per_second() for one in rounds]
        tails = [p99(one[who].gaps) / p99(one[NOBODY].gaps) for one in rounds]
        print(f"throughput {spread(tokens)}, ITL p99 {spread(tails)}")


def spread(ratios: Sequence[float]) -> str:
    """Median and quartiles."""
    ordered = sorted(ratios)
    low, high = (ordered[round(share * (len(ordered) - 1))] for share in (0.25, 0.75))
    return f"{median(ordered):.3f} [{low:.3f}, {high:.3f}]"
