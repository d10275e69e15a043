"""What an hour leaves behind: little, whatever the interval and however many models come and go; nothing is lost."""

import random
from dataclasses import replace

import pytest
from fake_engine import FakeEngine, page_of

from agent.burn_windows import standard_pairs
from agent.model import SliName, Slo
from agent.own import Own, OwnBuckets, own_together
from agent.plan import Plan
from agent.signals.model import Signals
from agent.signals.read import Question, read_signals
from agent.sli.count import TargetFacts
from agent.stats.buckets import Buckets
from agent.stats.goodput import GoodputTarget
from agent.tick import Memory, tick
from agent.windows import MOST_ENGINES, Windows

T0, HOUR = 1_800_000_000.0, 3_600
PACES = (1 / 64, 5 / 64)  # sums of halves are exact, in whatever order they are added up
ASKED = Question(GoodputTarget(2.5, 0.05), [("ttft_seconds", 1.0)])


def busy_hour(*windows: Windows, interval: int = 1) -> None:
    """Two engines behind one page, whose load wanders."""
    chance, engines = random.Random(3), [FakeEngine(engine="0"), FakeEngine(engine="1")]  # noqa: S311  no secret
    for second in range(0, HOUR + 1, interval):
        for engine in engines:
            engine.finish(chance.randrange(4), ttft=chance.choice((0.25, 0.75, 3.0)), tpot=chance.choice(PACES))
            engine.running, engine.waiting = float(chance.randrange(9)), float(chance.randrange(3))
        for one in windows:
            one.take(page_of(engines, T0 + second))
            one.drain()


def kept(windows: Windows) -> int:
    return sum(len(increments) for increments in windows.increments.values())


def test_an_hour_of_every_second_is_kept_in_a_seventh_of_its_readings() -> None:
    windows = Windows()
    busy_hour(windows)
    assert kept(windows) < 2 * HOUR / 7


def test_readings_that_are_rare_are_kept_as_they_are() -> None:
    windows = Windows()
    busy_hour(windows, interval=30)
    assert kept(windows) == 2 * (HOUR / 30 + 1)


def test_what_is_joined_adds_up_to_the_same() -> None:
    """Counters, histograms, time, the mean and the newest of gauges; the largest of two engines at once is a bound."""
    joined, plain = Windows(), Windows(keep_seconds=float("inf"))
    busy_hour(joined, plain)
    for back in (300, HOUR):
        ours, truth = (read_signals(w, T0 + HOUR - back, T0 + HOUR, ["vllm-0"], ASKED) for w in (joined, plain))
        levels = ("requests_running", "requests_waiting", "kv_usage_ratio")
        nothing: dict[str, None] = dict.fromkeys((*levels, "workload"))
        assert replace(ours, **nothing) == replace(truth, **nothing)  # type: ignore[arg-type]
        for name in levels:
            _is_alike(ours, truth, name)


def _is_alike(ours: Signals, truth: Signals, name: str) -> None:
    one, other = getattr(ours, name), getattr(truth, name)
    assert one.mean == pytest.approx(other.mean, rel=0.02)  # by which instants of two engines meet
    assert one.last == other.last
    assert other.max <= one.max <= 16


SLIS: dict[SliName, float | None] = {"availability": 300.0, "ttft": 2.5, "e2e": 30.0}


def test_models_that_come_and_go_are_forgotten_with_all_that_was_kept_of_them() -> None:
    """100 new ones on every page, for 40 pages: of 4,000 at most MOST_ENGINES are known, and those on the page are."""
    slos = tuple(
        Slo(sli, "chat", sli, "engine", 0.99, 2_592_000.0, standard_pairs(2_592_000.0), limit)
        for sli, limit in SLIS.items()
    )
    plan, memory = Plan(slos, {"vllm-0": TargetFacts("", "aggregated", None)}), Memory()
    for page in range(40):
        models = [f"lora-{page}-{number}" for number in range(100)]
        memory.windows.take(page_of([FakeEngine(model=model) for model in models], T0 + 10 * page))
        tick(plan, memory, T0 + 10 * page)
    known = memory.windows.increments.keys()
    assert len(known) <= MOST_ENGINES
    assert {key.model for key in known} >= set(models)
    assert memory.windows.raw.keys() <= known
    assert {key for key, _ in memory.windows.totals} <= known
    assert {key for _, key in memory.pending.balances} <= known


def test_more_engines_on_one_page_than_are_watched_is_told() -> None:
    windows = Windows()
    windows.take(page_of([FakeEngine(model=f"m{number}") for number in range(MOST_ENGINES + 5)], T0))
    assert len(windows.increments) == MOST_ENGINES
    last = windows.targets["vllm-0"].last_ok
    assert last is not None
    assert [warning.code for warning in last.warnings] == ["too_many_engines"]


def test_what_is_ours_adds_up_as_well() -> None:
    """Two canaries in one stretch, one in the next; those inside are those of the later."""
    edges = (1.0, float("inf"))
    low, high = Buckets(edges, (1.0, 0.0), 0.5), Buckets(edges, (0.0, 1.0), 1.5)
    place = ("requests_finished_total", "stop")
    two = Own({place: 2.0}, {"ttft_seconds": OwnBuckets(low, low)}, in_flight=1.0)
    one = Own({place: 1.0}, {"ttft_seconds": OwnBuckets(low, high)}, in_flight=0.0, unanswered=3.0)
    both = OwnBuckets(Buckets(edges, (2.0, 0.0), 1.0), Buckets(edges, (1.0, 1.0), 2.0))
    assert own_together(two, one) == Own({place: 3.0}, {"ttft_seconds": both}, 0.0, 3.0)
    assert own_together(None, one) == one
    assert own_together(two, None) == replace(two, in_flight=0.0)
