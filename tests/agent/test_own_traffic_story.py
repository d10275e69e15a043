"""Whatever comes between: after the canaries are taken out, exactly the users are left.

A made-up engine serves users and canaries for ten minutes; the client sees every token later than the engine, by a gap
of its own; pages are read every three seconds, and evaluated every second, as the agent does it.
"""

import math
import random
from dataclasses import dataclass, field
from heapq import heappop, heappush

import pytest
from fake_engine import FakeEngine

from agent.model import BurnPair, Slo
from agent.signals.read import Question, read_signals
from agent.sli.count import PendingBook, TargetFacts, count_events
from agent.windows import Windows
from probes.canary.report import percentile
from probes.sample import SentRequest

SECONDS, SCRAPE_SECONDS, CANARY_SECONDS = 600.0, 3.0, 7.0
SIGNALS = ("ttft_seconds", "tpot_seconds", "e2e_seconds", "itl_seconds")
SLOS = tuple(
    Slo(sli, "chat", sli, "engine", 0.99, 3600.0, (BurnPair("page", "fast", 5, 60, 10),), threshold)  # type: ignore[arg-type]
    for sli, threshold in (("ttft", 0.5), ("e2e", 2.5))
)
TARGETS = {"vllm-0": TargetFacts("m", "aggregated", "chat")}


@dataclass
class World:
    """Things that happen in time order, and the users' truth."""

    dice: random.Random
    engine: FakeEngine
    windows: Windows
    longest_gap: float
    users: int = 0
    first_tokens: list[float] = field(default_factory=list)  # of users, seconds

    def request(self, at: float, queue: list[tuple[float, int, object]], *, is_canary: bool) -> None:
        """One request of five tokens, from its arrival on."""
        ttft, step = (
            self.dice.choice((0.02, 0.09, 0.3, 0.8)) * self.dice.uniform(0.5, 1.5),
            self.dice.uniform(0.01, 0.2),
        )
        first, last = at + ttft, at + ttft + 4 * step
        push(queue, first, lambda: self.engine.observe("ttft_seconds", ttft))
        for number in range(1, 5):
            push(queue, first + number * step, lambda: self.engine.observe("itl_seconds", step))
        push(queue, last, lambda: self.end(ttft, step, is_canary=is_canary))
        if not is_canary:
            return
        self.windows.own.begin("vllm-0", at)
        gaps = sorted(self.dice.uniform(0, self.longest_gap) for _ in range(2))
        seen = SentRequest(
            sent_at_seconds=at,
            ended_at_seconds=last + gaps[1] + 0.01,
            model="m",
            first_token_at_seconds=first + gaps[0],
            head_seconds=0.002,
            ttft_seconds=ttft + gaps[0],
            tpot_seconds=step + (gaps[1] - gaps[0]) / 4,
            e2e_seconds=last - at + gaps[1],
            itl_gaps_seconds=(step, step, step, step + gaps[1] - gaps[0]),
            prompt_tokens=9,
            output_tokens=5,
            finish_reason="stop",
            timing_error_seconds=0.0001,
        )
        push(queue, seen.ended_at_seconds, lambda: self.windows.own.end("vllm-0", [seen]))

    def end(self, ttft: float, step: float, *, is_canary: bool) -> None:
        self.engine.finished["stop"] += 1
        self.engine.generated += 5
        self.engine.observe("e2e_seconds", ttft + 4 * step)
        self.engine.observe("tpot_seconds", step)
        if not is_canary:
            self.users += 1
            self.first_tokens.append(ttft)


def push(queue: list[tuple[float, int, object]], at: float, act: object) -> None:
    heappush(queue, (at, len(queue) * 7919 % 1_000_003, act))


def told(seed: int, users_per_second: float, longest_gap: float) -> tuple[World, PendingBook]:
    dice = random.Random(seed)  # noqa: S311 - a story, no secret
    windows, book = Windows(), PendingBook()
    world = World(dice, FakeEngine(started_at_seconds=0.0), windows, longest_gap)
    queue: list[tuple[float, int, object]] = []
    for at in range(2, int(SECONDS)):
        count = int(users_per_second) + (dice.random() < users_per_second % 1)
        for _ in range(count):
            begun = at + dice.random()
            push(queue, begun, lambda begun=begun: world.request(begun, queue, is_canary=False))
    canary = 5.0
    while canary < SECONDS - 20:
        push(queue, canary, lambda begun=canary: world.request(begun, queue, is_canary=True))
        canary += CANARY_SECONDS
    for number in range(int((SECONDS + 30) / SCRAPE_SECONDS)):
        at = 1.0 + number * SCRAPE_SECONDS
        push(queue, at, lambda at=at: windows.take(world.engine.reading(at)))
    for at in range(int(SECONDS) + 40):
        push(queue, at + 0.5, lambda now=at + 0.5: count_events(SLOS, TARGETS, windows, book, now))
    while queue:
        _, _, act = heappop(queue)
        act()  # type: ignore[operator]
    return world, book


@pytest.mark.parametrize("longest_gap", [0.004, 0.08, 0.7])
@pytest.mark.parametrize("users_per_second", [0.0, 0.2, 4.0])
@pytest.mark.parametrize("seed", range(3))
def test_users_alone_are_left(seed: int, users_per_second: float, longest_gap: float) -> None:
    world, _ = told(seed, users_per_second, longest_gap)
    signals = read_signals(world.windows, 0.0, SECONDS + 100, ["vllm-0"], Question())
    counts = {name: round(of.count) if (of := getattr(signals, name)) else 0 for name in SIGNALS}
    users = world.users
    assert counts == {"ttft_seconds": users, "tpot_seconds": users, "e2e_seconds": users, "itl_seconds": 4 * users}
    assert (signals.requests_finished, signals.generation_tokens) == (users, 5 * users)
    assert {slo.name: world.windows.events[slo.name].total().total for slo in SLOS} == {"ttft": users, "e2e": users}


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_hold_those_of_the_users(seed: int) -> None:
    """Where the client is as near as is allowed for, the bounds hold wherever an ambiguous canary lies."""
    world, _ = told(seed, 1.0, 0.004)
    latency = read_signals(world.windows, 0.0, SECONDS + 100, ["vllm-0"], Question()).ttft_seconds
    assert latency is not None
    for quantile, figure in ((0.5, latency.p50), (0.9, latency.p90), (0.99, latency.p99)):
        truth = percentile(sorted(world.first_tokens), quantile)
        assert figure is not None
        assert truth is not None
        assert (figure.low or 0.0) <= truth <= (figure.high or math.inf)
