"""Advice over a restart: what was learned, held and promised goes on, through the state file."""

import json
import random
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from watched_fleet import WatchedFleet

from agent.advice.advisor import Advisor, GroupMemory
from agent.advice.forecast import CHUNK_BINS, KEPT_BINS, Forecaster
from agent.config import Config
from agent.keeping import Keeper
from agent.model import ReplicaWish
from agent.state import StateFile
from agent.state_advice import NAMES, SavedAdvice, restored_advisor
from agent.tick import Memory, tick
from agent.windows import Windows

SAVE_SECONDS = 15.0  # the config's default: a killed agent is at most so far behind
AWAY_SECONDS = 10.0
Row = tuple[str, int, bytes]


def keeper(path: Path) -> Keeper:
    return Keeper(Config.model_validate({"state": {"path": path}}).state)


async def saved(fleet: WatchedFleet, path: Path) -> None:
    of = keeper(path)
    of.open(fleet.plan, fleet.now_seconds)
    await of.save(fleet.memory, fleet.plan, fleet.now_seconds)
    of.close()


def restored(fleet: WatchedFleet, path: Path) -> Memory:
    of = keeper(path)
    try:
        return of.open(fleet.plan, fleet.now_seconds)
    finally:
        of.close()


async def killed_and_back(fleet: WatchedFleet, path: Path, seconds: float, away: float = AWAY_SECONDS) -> None:
    """Beside the agent that goes on comes one that was killed 15 s after its last save, and was away for so long."""
    await saved(fleet, path)
    fleet.go(SAVE_SECONDS + away)
    fleet.beside.append(restored(fleet, path))
    fleet.go(seconds)


def both(fleet: WatchedFleet) -> Iterable[tuple[ReplicaWish, ReplicaWish]]:
    """What the agent that went on and the one that came back wished for at each tick, since that came back."""
    ours = fleet.effects[-len(fleet.told_beside) :]
    for effects, beside in zip(ours, fleet.told_beside, strict=True):
        yield effects.snapshot.replicas[0], beside.snapshot.replicas[0]


async def test_a_killed_agent_repeats_no_advice_and_forgets_no_verdict(tmp_path: Path) -> None:
    """The load jumps from 4 to 14 requests/s, more replicas are advised, and nobody adds them. At every tick the agent
    that was killed advises the count that the one beside it does, within one, from its first tick on; it tells the same
    recommendations at the same seconds, and has the same ones open.
    """
    fleet = WatchedFleet(lambda seconds: 4.0 if seconds < 300 else 14.0, 3)
    fleet.go(420.0)
    assert [entry.reason_code for entry in fleet.memory.ledger.open] == ["scale_out"]
    await killed_and_back(fleet, tmp_path / "s.db", 120.0)
    assert all(there.value > there.current for _, there in both(fleet))
    assert max(abs(there.value - here.value) for here, there in both(fleet)) <= 1
    assert all(there.confidence >= 0.8 * here.confidence for here, there in both(fleet))
    ours = fleet.effects[-len(fleet.told_beside) :]
    told, went_on = ([e.id for one in of for e in one.changed_recommendations] for of in (fleet.told_beside, ours))
    assert told == went_on
    assert fleet.beside[0].ledger.entries == fleet.memory.ledger.entries


async def test_a_hold_goes_on_where_it_was(tmp_path: Path) -> None:
    """Three replicas where one does, killed in the middle of the hold: it does not begin anew, so fewer are advised
    within a minute of when the other agent does.
    """
    fleet = WatchedFleet(lambda _: 2.0, 3)
    fleet.go(300.0)
    await killed_and_back(fleet, tmp_path / "s.db", 240.0)
    first = [next(n for n, wish in enumerate(wishes) if wish.value < 3) for wishes in zip(*both(fleet), strict=True)]
    assert 0 < first[0] <= first[1] <= first[0] + 12
    assert {there.reason for _, there in both(fleet)} == {"holding", "shrink"}


async def test_a_long_time_away_is_missing_data_and_shrinks_nothing(tmp_path: Path) -> None:
    """Away for five minutes: what was held before does not count, and the old forecast does not speak for now."""
    fleet = WatchedFleet(lambda seconds: 14.0 if seconds < 310 else 2.0, 3)
    fleet.go(300.0)
    assert fleet.effects[-1].snapshot.replicas[0].value > 3
    await killed_and_back(fleet, tmp_path / "s.db", 180.0, away=295.0)  # its first tick comes before its first page
    assert {there.value for _, there in both(fleet)} == {3}
    assert next(there for _, there in both(fleet)).reason == "bad_data"


async def test_everything_that_was_learned_comes_back_to_the_last_digit(tmp_path: Path) -> None:
    fleet = WatchedFleet(lambda _: 4.0, 2)
    fleet.go(300.0)
    await saved(fleet, tmp_path / "s.db")
    ours, there = fleet.memory.advisor, restored(fleet, tmp_path / "s.db").advisor
    assert there.groups == ours.groups
    assert there.capacity.learned == ours.capacity.learned
    assert there.leads == ours.leads
    (learned,) = there.capacity.learned.values()
    assert learned.steps is not None
    assert learned.version == 1


async def test_a_save_takes_nothing_from_what_advice_learns(tmp_path: Path) -> None:
    """Pages that come between a tick and a save are counted by the save; advice learns of them all the same."""
    fleet = WatchedFleet(lambda _: 7.0, 2)
    fleet.beside.append(Memory())
    fleet.go(65.0)
    fleet.read()
    of = keeper(tmp_path / "s.db")
    of.open(fleet.plan, fleet.now_seconds)
    await of.save(fleet.memory, fleet.plan, fleet.now_seconds)
    of.close()
    for memory in (fleet.memory, *fleet.beside):
        tick(fleet.plan, memory, fleet.now_seconds)
    assert fleet.memory.advisor.groups == fleet.beside[0].advisor.groups
    assert fleet.memory.advisor.capacity.learned == fleet.beside[0].advisor.capacity.learned


def test_a_week_of_rates_is_written_two_hours_at_a_time_and_comes_back_whole() -> None:
    """Saves of a growing and then full history: each but the first writes at most two chunks of it."""
    forecaster, advisor, known, rows = Forecaster(), Advisor(), SavedAdvice(), {}
    advisor.groups["m", "aggregated"] = GroupMemory(forecaster=forecaster)
    for upto in (*range(0, 2_000, 137), KEPT_BINS - 5, KEPT_BINS + 10, KEPT_BINS + 1_000):
        before, forecaster.taken = forecaster.taken, upto
        forecaster.rates.extend(float(n) for n in range(before, upto))
        deleted, changed = known.changes(advisor, Windows(), 0.0, everything=False)
        assert deleted == ([] if before else list(NAMES)) or upto == 137
        written = [row for row in changed if row[0] == "advice/rates"]
        assert len(written) <= 2 + (upto - before) // CHUNK_BINS
        rows |= {(name, place): body for name, place, body in changed}
        again = restored_advisor((name, place, body) for (name, place), body in rows.items())
        assert again.groups["m", "aggregated"].forecaster.rates == forecaster.rates
    assert forecaster.rates == deque(map(float, range(1_000, KEPT_BINS + 1_000)))


def leaves(form: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the numbers, words and nulls of this form stand."""
    places = form.items() if isinstance(form, dict) else enumerate(form) if isinstance(form, list) else ()
    yield from chain.from_iterable(leaves(part, (*path, place)) for place, part in places)
    if not isinstance(form, dict | list):
        yield path


def spoilt(form: Any, path: tuple[Any, ...], value: object) -> Any:
    whole = part = json.loads(json.dumps(form))
    for place in path[:-1]:
        part = part[place]
    part[path[-1]] = value
    return whole


@pytest.fixture(scope="module")
def learned() -> tuple[WatchedFleet, list[Row]]:
    fleet = WatchedFleet(lambda _: 7.0, 2)
    fleet.go(300.0)
    _, rows = SavedAdvice().changes(fleet.memory.advisor, fleet.memory.windows, fleet.now_seconds, everything=True)
    return fleet, rows


@pytest.mark.parametrize("seed", range(12))
def test_rows_that_are_none_of_ours_are_learned_anew_and_never_crash(
    learned: tuple[WatchedFleet, list[Row]], seed: int
) -> None:
    """A word, a null, a list or an object where something else was, anywhere: as another version might have written."""
    fleet, rows = learned
    dice = random.Random(seed)  # noqa: S311  a fuzzer
    for _ in range(20):
        number = dice.randrange(len(rows))
        name, place, body = rows[number]
        form = json.loads(body)
        value = dice.choice(["x", None, [], {}, [["x"]]])
        bad = json.dumps(spoilt(form, dice.choice(list(leaves(form))), value)).encode()
        advisor = restored_advisor([*rows[:number], (name, place, bad), *rows[number + 1 :]])
        tick(fleet.plan, Memory(advisor=advisor), fleet.now_seconds)


async def test_advice_that_is_none_of_ours_costs_no_budget(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fleet = WatchedFleet(lambda _: 7.0, 2)
    fleet.go(120.0)
    await saved(fleet, tmp_path / "s.db")
    file = StateFile(tmp_path / "s.db")
    file.save([], [("advice/groups", 0, b'{"group":["m"]}')])
    file.close()
    memory = restored(fleet, tmp_path / "s.db")
    assert memory.lost_at_seconds is None
    assert memory.advisor == Advisor()
    assert memory.windows.events["ttft"].total() == fleet.memory.windows.events["ttft"].total()
    assert "advice begins anew reason=" in caplog.text


async def test_a_file_of_before_has_its_counts_and_learns_advice_anew(tmp_path: Path) -> None:
    """Schema 1 had no rows of advice: the file is taken over."""
    fleet = WatchedFleet(lambda _: 7.0, 2)
    fleet.go(120.0)
    await saved(fleet, tmp_path / "s.db")
    file = StateFile(tmp_path / "s.db")
    file.save(NAMES, [])
    file._database.execute("PRAGMA user_version = 1")
    file.close()
    memory = restored(fleet, tmp_path / "s.db")
    assert memory.lost_at_seconds is None
    assert memory.advisor == Advisor()
    assert memory.ledger.entries == fleet.memory.ledger.entries
