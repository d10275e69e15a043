"""Counting is fast, and exactly what plain counting gives: the same counts in every window, to the last digit."""

import math
import random

import pytest
from fake_engine import EDGES, FakeEngine, no_page
from hypothesis import given
from hypothesis import strategies as st
from plain_counting import PlainCounting, plain_split

from agent.model import SliName, Slo
from agent.sli.count import PendingBook, TargetFacts, count_events
from agent.stats.buckets import Buckets, split_at
from agent.windows import Windows
from probes.sample import ProbeResult

T0, MONTH = 1_800_000_000.0, 30 * 86_400.0
SLIS: tuple[SliName, ...] = ("availability", "ttft", "itl", "tpot", "e2e", "queue")
WINDOWS = (7.0, 300.0, 1800.0, 3600.0, 7200.0, 21_600.0, 86_400.0, 259_200.0, MONTH)


def _slos() -> tuple[Slo, ...]:
    """Every SLI twice at one threshold and once at another, some for one model, one role, one service; canaries too."""
    engine = [
        Slo(f"{sli}-{number}", ("chat", "chat", "code")[number], sli, "engine", 0.99, MONTH, (), limit, **more)
        for sli in SLIS
        for number, (limit, more) in enumerate([(2.5, {}), (2.5, {"model": "m"}), (0.7, {"role": "decode"})])
    ]
    canary = [Slo(f"felt-{sli}", "chat", sli, "canary", 0.99, MONTH, (), 1.5) for sli in ("ttft", "e2e")]
    return (*engine, *canary)


@pytest.mark.parametrize("seed", range(12))
def test_any_story_is_counted_as_plainly(seed: int) -> None:
    """Engines that serve, hang, restart and vanish, read at odd moments; evaluated at odd moments, gaps of days."""
    dice, slos = random.Random(seed), _slos()  # noqa: S311  a story
    targets = {
        "vllm-0": TargetFacts("m", "aggregated", None),
        "vllm-1": TargetFacts("", "decode", "chat"),
        "vllm-2": TargetFacts("x", "decode", "code"),
    }
    engines = {name: FakeEngine(name, model=facts.model or "m", running=2) for name, facts in targets.items()}
    windows, pending, now = Windows(), PendingBook(), T0
    plain = PlainCounting(slos, targets)
    for _ in range(150):
        now += dice.choice(
            (0.3, 5.0, 10.0, 15.0, 15.0, 61.7, 900.0, dice.random() * 2e5 if dice.random() < 0.1 else 4.0)
        )
        for name, engine in engines.items():
            if dice.random() < 0.03:
                engines[name] = FakeEngine(name, model=engine.model, started_at_seconds=now - 1)
            engine.finish(
                dice.randrange(30), ttft=dice.choice((0.2, 0.8, 2.0, 7.0)), why=dice.choice(("stop", "error"))
            )
            engine.observe("itl_seconds", dice.random() * 3, 40)
            engine.observe("queue_seconds", dice.random() * 3, 4)
            engine.waiting, engine.running = float(dice.randrange(9)), float(dice.randrange(9))
            engine.preemptions += dice.randrange(2)
            at = now + dice.random()
            windows.take(no_page(at, name) if dice.random() < 0.1 else engine.reading(at))
            outcome = dice.choice(("ok", "ok", "server_error", "missed"))
            windows.take_probe(ProbeResult(name, "chat", outcome, at, at + 1, "m", ttft_seconds=dice.random() * 3))
        if dice.random() < 0.6:
            fresh = (windows._fresh_increments, windows._fresh_probes)
            plain.count(*fresh, windows.succeeded)
            count_events(slos, targets, windows, pending)
            for slo in slos:
                ours, theirs = windows.events[slo.name], plain.events[slo.name]
                assert ours.total() == theirs.total()
                assert [ours.since(now - w) for w in WINDOWS] == [theirs.since(now - w) for w in WINDOWS]
                assert ours.began_at_seconds == theirs.began_at_seconds
                assert ours.last_event_at_seconds == theirs.last_event_at_seconds


@given(
    st.lists(st.integers(0, 99), min_size=len(EDGES), max_size=len(EDGES)),
    st.one_of(st.floats(1e-6, 1e4), st.sampled_from(EDGES), st.just(math.inf)),
)
def test_a_split_is_that_of_bucket_by_bucket(counts: list[int], threshold: float) -> None:
    buckets = Buckets(EDGES, tuple(map(float, counts)), None)
    assert split_at(buckets, threshold) == plain_split(buckets, threshold)
