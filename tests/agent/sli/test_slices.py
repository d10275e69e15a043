"""Slices of time: each of them is one event, with a verdict that the counts prove, and an empty one is no event."""

from pathlib import Path

import pytest
from fake_engine import FakeEngine
from hypothesis import given
from hypothesis import strategies as st

from agent.advice.carries import objectives_of
from agent.config import State
from agent.config_file import parse_config
from agent.errors import ConfigError
from agent.keeping import Keeper
from agent.model import BurnPair, Counts, Slo, SloStatus
from agent.plan import Plan
from agent.planning import make_plan
from agent.sli.count import TargetFacts
from agent.sli.slices import SETTLE_SECONDS, Slices
from agent.slo.exclusions import Exclusion
from agent.stats.time_buckets import TimeBuckets
from agent.tick import Memory, tick

T0, MINUTE, HOUR = 1_800_000_000.0, 60.0, 3_600.0  # T0 is a whole minute
FAST = BurnPair("page", "fast", 300.0, HOUR, 14.4)


def promise(**more: object) -> Slo:
    """99 % of all minutes are good: minutes in which 90 % of requests keep a TPOT of 50 ms."""
    said: dict[str, object] = {"slice_seconds": MINUTE, "slice_good_ratio": 0.9, **more}
    return Slo("s", "chat", "tpot", "engine", 0.99, 30 * 86_400.0, (FAST,), 0.05, **said)  # type: ignore[arg-type]


class World:
    """One engine that is read each 10 s, and a tick at each look."""

    def __init__(self, slo: Slo | None = None, exclusions: tuple[Exclusion, ...] = ()) -> None:
        targets = {"vllm-0": TargetFacts("m", "aggregated", None)}
        self.plan, self.memory = Plan((slo or promise(),), targets, exclusions), Memory()
        self.engine, self.now = FakeEngine(started_at_seconds=T0 - HOUR), T0
        self.look(T0)

    def look(self, at: float) -> SloStatus:
        self.now = at
        self.memory.windows.take(self.engine.reading(at))
        return tick(self.plan, self.memory, at).snapshot.slos[0]

    def minute(self, good: float, bad: float = 0.0) -> "World":
        """A minute with so many requests, all of them before the last look."""
        for step in range(1, 7):
            if step == 4:
                self.happen(good, bad)
            self.look(self.now + 10)
        return self

    def happen(self, good: float, bad: float) -> None:
        self.engine.observe("tpot_seconds", 0.02, good)
        self.engine.observe("tpot_seconds", 0.2, bad)

    def status(self) -> SloStatus:
        """Once all that was read has settled."""
        return tick(self.plan, self.memory, self.now + SETTLE_SECONDS).snapshot.slos[0]


def test_each_minute_is_one_event_whatever_its_traffic() -> None:
    """10,000 good; 17 of 20; 18 of 20, exactly nine in ten; none; and one bad alone: 2 good, 2 bad, 1 empty."""
    world = World().minute(10_000).minute(17, 3).minute(18, 2).minute(0).minute(0, 1)
    budget = world.status().budget
    assert (budget.counts, budget.empty_slices) == (Counts(good=2, bad=2), 1)


def test_a_slice_has_no_verdict_before_it_settled() -> None:
    world = World().minute(5)
    early = world.look(world.now + SETTLE_SECONDS - 1)
    assert early.budget.counts.total == 0
    assert early.silence is not None
    assert "no slice of time with a request in it is over" in early.silence.detail
    assert world.status().budget.counts == Counts(good=1)


def test_undecided_events_make_a_slice_undecided_only_where_they_decide() -> None:
    def verdict(good: float, bad: float, undecided: float) -> Counts:
        slices, events = Slices(), TimeBuckets()
        slices.count(MINUTE, T0 + 10, T0 + 20, (good, bad, undecided))
        slices.judge(promise(), events, T0 + MINUTE + SETTLE_SECONDS)
        return events.total()

    assert verdict(90, 0, 10) == Counts(good=1)
    assert verdict(80, 5, 15) == Counts(undecided=1)
    assert verdict(80, 11, 9) == Counts(bad=1)


@pytest.mark.parametrize(
    ("good", "bad", "told"),
    [
        (600.0, 0.0, Counts(good=10)),
        (0.0, 600.0, Counts(bad=10)),
        (580.0, 20.0, Counts(undecided=10)),
        (3.0, 0.0, Counts(good=3)),
    ],
)
def test_what_nobody_could_read_is_not_pressed_into_slices(good: float, bad: float, told: Counts) -> None:
    """Ten minutes without a page, then one that tells it all: which minute the 20 bad ones fell into, nothing shows.
    Three requests were in three minutes at most.
    """
    world = World()
    world.happen(good, bad)
    world.look(T0 + 10 * MINUTE)
    assert world.status().budget.counts == told


def test_a_verdict_stands_and_late_events_count_in_the_oldest_open_slice() -> None:
    slices, events = Slices(), TimeBuckets()
    slices.count(MINUTE, T0, T0 + 10, (10, 0, 0))
    slices.judge(promise(), events, T0 + 2 * MINUTE)
    slices.count(MINUTE, T0, T0 + 10, (0, 50, 0))
    assert events.total() == Counts(good=1)
    slices.judge(promise(), events, T0 + 4 * MINUTE)
    assert events.total() == Counts(good=1, bad=1)


@given(
    st.lists(st.tuples(st.integers(0, 3_600), st.integers(0, 900), st.integers(0, 50), st.integers(0, 50)), max_size=40)
)
def test_no_event_is_lost_and_no_slice_counted_twice(
    readings: list[tuple[int, int, int, int]],
) -> None:
    """Readings in any order and length: open slices hold them all, and there are never more verdicts than slices."""
    slices, events, length = Slices(), TimeBuckets(), MINUTE
    for start, long, good, bad in readings:
        slices.count(length, T0 + start, T0 + start + long, (good, bad, 0))
    held = sum(sum(numbers) for numbers in slices.open.values())
    assert held == pytest.approx(sum(good + bad for _, _, good, bad in readings))
    there = len(slices.open)
    slices.judge(promise(), events, T0 + 2 * HOUR)
    assert events.total().total == there <= 76
    assert slices.open == {}


def test_burn_is_of_slices_and_is_the_same_as_long_as_no_slice_ends() -> None:
    """An hour, of which the last 9 minutes are bad: 9/60 of the long window and all of the short one are bad, 15 and
    100 times the budget of 1 %, and it pages; by requests it would not: the bad minutes had a thousandth of them.
    """
    world = World()
    for place in range(60):
        world.minute(*((1000.0, 0.0) if place < 51 else (0.0, 1.0)))
    burn = world.status().burns[0]
    assert burn.long_counts == Counts(good=pytest.approx(51), bad=pytest.approx(9))
    assert (burn.long_rate, burn.short_rate) == (pytest.approx(15), pytest.approx(100))
    assert burn.is_burning
    alert = next(a for a in world.memory.alerts.firing.values() if a.name == "SLOBurnRate")
    assert "9 of 60 slices of 1m in the last 1h were bad" in alert.annotations["description"]
    later = tick(world.plan, world.memory, world.now + SETTLE_SECONDS + 29).snapshot.slos[0]
    assert later.burns == (burn,)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=6, max_size=120))
def test_every_minute_is_what_plain_counting_says(looks: list[tuple[int, int]]) -> None:
    """Each look 10 s after the one before, and through `tick`: the same as adding up six looks and dividing once."""
    world = World()
    for good, bad in looks:
        world.happen(good, bad)
        world.look(world.now + 10)
    minutes = [looks[first : first + 6] for first in range(0, len(looks) // 6 * 6, 6)]
    sums = [(sum(good for good, _ in one), sum(bad for _, bad in one)) for one in minutes]
    busy = [(good, good + bad) for good, bad in sums if good + bad]
    is_good = [10 * good >= 9 * every for good, every in busy]
    world.now = T0 + MINUTE * len(minutes)
    budget = world.status().budget
    assert budget.counts == Counts(good=pytest.approx(sum(is_good)), bad=pytest.approx(len(busy) - sum(is_good)))
    assert budget.empty_slices == pytest.approx(len(minutes) - len(busy))


def test_advice_plans_for_what_a_good_slice_needs() -> None:
    """99 % of minutes at 90 % of requests: an engine that keeps 90 % at all times keeps it; 99 % nobody promised."""
    (asked,) = objectives_of([promise()])
    assert asked.objective_ratio == 0.9
    (asked,) = objectives_of([promise(slice_seconds=None, slice_good_ratio=None)])
    assert asked.objective_ratio == 0.99


def test_an_excluded_minute_is_neither_bad_nor_empty() -> None:
    out = Exclusion(("*",), "move", from_seconds=T0 + MINUTE, to_seconds=T0 + 2 * MINUTE)
    world = World(exclusions=(out,)).minute(5).minute(0, 5).minute(0).minute(5)
    budget = world.status().budget
    assert budget.counts == Counts(good=pytest.approx(2))
    assert budget.empty_slices == pytest.approx(1)


@pytest.mark.parametrize(("before", "told"), [(8, Counts(bad=1)), (19, Counts(good=1))])
async def test_a_restart_in_the_middle_of_a_slice_changes_no_verdict(
    tmp_path: Path, before: float, told: Counts
) -> None:
    """2 bad after the restart: with 8 good before it a bad minute, which without them would be good; with 19 a good
    one, which they alone would make bad.
    """
    world = World()
    world.happen(before, 0)
    world.look(T0 + 20)
    keeper = Keeper(State(path=tmp_path / "s.db"))
    keeper.open(world.plan, T0)
    await keeper.save(world.memory, world.plan, T0 + 20)
    keeper.close()
    again = Keeper(State(path=tmp_path / "s.db"))
    world.memory = again.open(world.plan, T0 + 25)
    again.close()
    world.happen(0, 2)
    world.look(T0 + 30)
    world.now = T0 + MINUTE
    assert world.status().budget.counts == told


def test_slices_of_another_length_or_ratio_begin_anew() -> None:
    """A bad minute by 90 % says nothing of minutes by 50 %."""
    world = World().minute(8, 2)
    assert world.status().budget.counts == Counts(bad=1)
    world.plan = Plan((promise(slice_good_ratio=0.5),), world.plan.targets)
    assert world.status().budget.counts == Counts()


CONFIG = """
targets: [{name: a, url: "http://a"}]
slos: [{name: s, sli: ttft, objective_ratio: 0.99, threshold_seconds: 1, %s}]
"""


def test_the_config_says_it() -> None:
    config = parse_config(CONFIG % "slice_seconds: 300, slice_good_ratio: 0.95", "f")
    slo = make_plan(config, ()).slos[0]
    assert (slo.slice_seconds, slo.slice_good_ratio) == (300, 0.95)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ("slice_seconds: 60", "slice_seconds and slice_good_ratio go together"),
        ("slice_good_ratio: 0.9", "slice_seconds and slice_good_ratio go together"),
        ("slice_seconds: 60, slice_good_ratio: 95", "Write 0.95"),
        ("slice_seconds: 90, slice_good_ratio: 0.9", "slice_seconds"),
    ],
)
def test_half_a_slice_is_refused(fields: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_config(CONFIG % fields, "f")
