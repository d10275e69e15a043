"""Composites: a slice is good when all members say so, bad when one does, and else there is no verdict."""

from itertools import permutations
from pathlib import Path

import pytest
from fake_engine import FakeEngine

from agent.cli import main
from agent.config import State
from agent.config_file import parse_config
from agent.errors import ConfigError
from agent.keeping import Keeper
from agent.model import BurnPair, Counts, SliName, Slo, SloStatus
from agent.plan import Plan
from agent.planning import make_plan
from agent.sli.composites import Joined
from agent.sli.count import TargetFacts
from agent.sli.slices import BAD, GOOD, SETTLE_SECONDS, UNDECIDED, Verdict
from agent.stats.time_buckets import Numbers, TimeBuckets
from agent.tick import Memory, tick

T0, MINUTE, HOUR = 1_800_000_000.0, 60.0, 3_600.0
PLACE = int(T0 // MINUTE)
FAST = BurnPair("page", "fast", 300.0, HOUR, 14.4)


def member(name: str, sli: SliName, threshold: float) -> Slo:
    sliced = {"slice_seconds": MINUTE, "slice_good_ratio": 0.9}
    return Slo(name, "chat", sli, "engine", 0.99, 30 * 86_400.0, (FAST,), threshold, **sliced)  # type: ignore[arg-type]


BOTH = Slo("both", "chat", "composite", "slos", 0.99, 30 * 86_400.0, (FAST,), slice_seconds=MINUTE, all_of=("a", "b"))
SLOS = (BOTH, member("a", "ttft", 0.5), member("b", "tpot", 0.05))


def told(*verdicts: tuple[str, int, Numbers], of: tuple[str, ...] = ("a", "b")) -> Counts:
    joined, events = Joined(), TimeBuckets()
    slo = Slo("s", "chat", "composite", "slos", 0.99, 86_400.0, (), slice_seconds=MINUTE, all_of=of)
    for name, place, numbers in verdicts:
        joined.take(slo, name, Verdict(place, place * MINUTE, (place + 1) * MINUTE, numbers), events)
    return events.total()


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ((GOOD, GOOD, GOOD), Counts(good=1)),
        ((GOOD, BAD, GOOD), Counts(bad=1)),
        ((BAD, BAD, UNDECIDED), Counts(bad=1)),
        ((GOOD, UNDECIDED, GOOD), Counts(undecided=1)),
        ((GOOD, GOOD), Counts()),
        ((UNDECIDED, GOOD), Counts()),
        ((BAD,), Counts(bad=1)),
        ((BAD, BAD), Counts(bad=1)),
    ],
)
def test_one_verdict_whatever_the_order(said: tuple[Numbers, ...], verdict: Counts) -> None:
    """One event at most for each slice, also when two members say bad one after the other."""
    for order in permutations(zip("abc", said, strict=False)):
        assert told(*((name, PLACE, numbers) for name, numbers in order), of=("a", "b", "c")) == verdict


def test_members_of_another_slice_make_no_verdict() -> None:
    assert told(("a", PLACE, GOOD), ("b", PLACE + 1, GOOD)) == Counts()


class World:
    """One engine, read each 10 s; TTFT is a's and TPOT is b's."""

    def __init__(self) -> None:
        self.plan = Plan(SLOS, {"vllm-0": TargetFacts("m", "aggregated", None)})
        self.memory, self.engine, self.now = Memory(), FakeEngine(started_at_seconds=T0 - HOUR), T0
        self.look(T0)

    def look(self, at: float) -> None:
        self.now = at
        self.memory.windows.take(self.engine.reading(at))
        tick(self.plan, self.memory, at)

    def minute(self, ttft: float | None, tpot: float | None) -> "World":
        for step in range(6):
            if step == 3 and ttft is not None:
                self.engine.observe("ttft_seconds", ttft, 10)
            if step == 3 and tpot is not None:
                self.engine.observe("tpot_seconds", tpot, 10)
            self.look(self.now + 10)
        return self

    def status(self) -> SloStatus:
        self.memory.windows.take(self.engine.reading(self.now + SETTLE_SECONDS))
        return tick(self.plan, self.memory, self.now + SETTLE_SECONDS).snapshot.slos[0]


def test_through_the_tick_it_is_the_minutes_that_are_good_for_both() -> None:
    """Good for both; TTFT late; TPOT slow; both; no TPOT at all (no verdict); nothing (no verdict)."""
    world = World().minute(0.1, 0.02).minute(1.0, 0.02).minute(0.1, 0.2).minute(1.0, 0.2).minute(0.1, None)
    budget = world.minute(None, None).status().budget
    assert budget.counts == Counts(good=pytest.approx(1), bad=pytest.approx(3))
    assert budget.empty_slices == pytest.approx(2)


def test_it_burns_and_pages_as_any_slo() -> None:
    """51 good and 9 bad of 60 minutes: 15 times the budget of 1 %; a fails in 5 of them, b in 4: neither pages."""
    world = World()
    for place in range(60):
        world.minute(1.0 if place in range(51, 56) else 0.1, 0.2 if place >= 56 else 0.02)
    burns = {status.slo.name: status for status in tick(world.plan, world.memory, world.now + 30).snapshot.slos}
    assert burns["both"].burns[0].long_rate == pytest.approx(15)
    assert {name for name, status in burns.items() if status.burns[0].is_burning} == {"both"}
    alerts = [dict(alert.labels)["slo"] for alert in world.memory.alerts.firing.values() if alert.name == "SLOBurnRate"]
    assert alerts == ["both"]


def test_a_member_that_nobody_tells_of_makes_it_blind() -> None:
    world = World()
    world.plan = Plan((BOTH, SLOS[1], member("b", "queue", 0.3)), world.plan.targets)
    world.engine.counts.pop("queue_seconds")
    world.memory = Memory()
    world.minute(0.1, 0.02)
    silence = world.status().silence
    assert silence is not None
    assert silence.detail.startswith("b: ")


async def test_a_restart_forgets_nothing_that_a_member_said(tmp_path: Path) -> None:
    """a is good and judged before the restart, b tells of that minute after it: without the first half no verdict."""
    world = World().minute(0.1, None)
    world.status()
    keeper = Keeper(State(path=tmp_path / "s.db"))
    keeper.open(world.plan, T0)
    await keeper.save(world.memory, world.plan, world.now)
    keeper.close()
    again = Keeper(State(path=tmp_path / "s.db"))
    memory = again.open(world.plan, world.now + 5)
    again.close()
    assert memory.pending.joined == world.memory.pending.joined
    assert memory.pending.joined["both"].told == {PLACE: {"a": GOOD}}


def test_other_members_begin_anew() -> None:
    world = World().minute(0.1, 0.02)
    assert world.status().budget.counts == Counts(good=1)
    world.plan = Plan((BOTH, SLOS[1], member("b", "tpot", 0.1)), world.plan.targets)
    assert world.status().budget.counts == Counts()


CONFIG = """
targets: [{name: a, url: "http://a"}]
slos:
  - {name: a, sli: ttft, objective_ratio: 0.99, threshold_seconds: 1, slice_seconds: 300, slice_good_ratio: 0.95}
  - {name: b, sli: tpot, objective_ratio: 0.99, threshold_seconds: 0.05, slice_seconds: 300, slice_good_ratio: 0.95}
  - {name: plain, sli: tpot, objective_ratio: 0.99, threshold_seconds: 0.05}
  - {name: both, sli: composite, objective_ratio: 0.99, %s}
"""


def test_the_config_and_its_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slo = make_plan(parse_config(CONFIG % "all_of: [a, b]", "f"), ()).slos[3]
    assert (slo.source, slo.slice_seconds, slo.all_of) == ("slos", 300, ("a", "b"))
    path = tmp_path / "c.yaml"
    path.write_text(CONFIG % "all_of: [a, b]")
    assert main(["check", "-c", str(path)]) == 0
    out = capsys.readouterr().out
    assert "SLO both: 99 % of all slices of 5m of what llm does is good over 30d (slos)" in out
    assert "good means: slices of 5m that are good for a, b" in out


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ("all_of: []", "all_of belongs to sli composite"),
        ("all_of: [a]", "needs two or more SLOs"),
        ("all_of: [a, a]", "needs two or more SLOs"),
        ("all_of: [a, plain]", "with the same slice_seconds"),
        ("all_of: [a, c]", 'all_of.1. names "c"'),
        ("all_of: [a, both]", 'all_of.1. names "both"'),
        ("all_of: [a, b], threshold_seconds: 1", "a composite counts what its members count"),
        ("all_of: [a, b], source: engine", "a composite counts what its members count"),
    ],
)
def test_what_is_no_composite(fields: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_config(CONFIG % fields, "f")
