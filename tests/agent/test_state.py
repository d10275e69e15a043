"""The state file: what comes back is what was saved, to the event; what cannot be believed is never called good."""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_engine import FakeEngine
from loopback import agent, points, target, until
from loopback import config as quick
from state_child import PER_SECOND, T0, config, engine_at, plan

from agent.errors import StateError
from agent.keeping import Keeper
from agent.model import Counts, Effects
from agent.runtime import Listeners
from agent.state import StateFile, StateLostError, _mend
from agent.tick import Memory, tick

CHILD = Path(__file__).with_name("state_child.py")


async def saved(path: Path, seconds: float = 1800.0, step_seconds: float = 10.0) -> Memory:
    """An agent that watched an engine for so long, until T0 + 600; it saved at each third look, and at its end."""
    keeper, memory, began = Keeper(config(path).state), Memory(), T0 + 600 - seconds
    keeper.open(plan(), began)
    for step in range(int(seconds / step_seconds) + 1):
        now = began + step_seconds * step
        memory.windows.take(engine_at(now).reading(now))
        tick(plan(), memory, now)
        if step % 3 == 0:
            await keeper.save(memory, plan(), now)
    await keeper.save(memory, plan(), T0 + 600)
    keeper.close()
    return memory


def reopened(path: Path, now: float) -> Memory:
    keeper = Keeper(config(path).state)
    try:
        return keeper.open(plan(), now)
    finally:
        keeper.close()


async def test_a_restored_memory_judges_as_the_first_would_have(tmp_path: Path) -> None:
    """Counts, burn, budget and firing alerts, with their labels and since when, are the same to the last digit."""
    first = await saved(tmp_path / "s.db")
    second = reopened(tmp_path / "s.db", T0 + 601)
    assert first.alerts.firing
    assert second.alerts.firing == first.alerts.firing
    assert first.alerts.ended
    assert second.alerts.ended == first.alerts.ended
    for now in (T0 + 610, T0 + 620, T0 + 900):
        for memory in (first, second):
            memory.windows.take(engine_at(now).reading(now))
        ours, theirs = tick(plan(), first, now), tick(plan(), second, now)
        assert theirs.snapshot.slos == ours.snapshot.slos
        since = {alert.labels: alert.starts_at_seconds for alert in ours.snapshot.alerts}
        assert {alert.labels: alert.starts_at_seconds for alert in theirs.snapshot.alerts} == since


async def test_what_happened_while_we_were_away_is_counted_and_spread_over_that_time(tmp_path: Path) -> None:
    """vLLM's counters go on: an hour at 7/s is 25,200 requests, and a twelfth of them lies in the last 5 minutes."""
    first = await saved(tmp_path / "s.db")
    memory, back = reopened(tmp_path / "s.db", T0 + 4200), T0 + 4200
    before = first.windows.events["ttft"].total().total
    memory.windows.take(engine_at(back).reading(back))
    status = tick(plan(), memory, back).snapshot.slos[0]
    assert memory.windows.events["ttft"].total().total - before == PER_SECOND * 3600
    assert status.burns[0].short_counts.total == pytest.approx(PER_SECOND * 300)


async def test_an_engine_that_restarted_while_we_were_away_counts_from_its_start(tmp_path: Path) -> None:
    first = await saved(tmp_path / "s.db")
    memory = reopened(tmp_path / "s.db", T0 + 700)
    engine = FakeEngine(started_at_seconds=T0 + 650, running=2)
    engine.finish(70)
    memory.windows.take(engine.reading(T0 + 700))
    tick(plan(), memory, T0 + 700)
    assert memory.windows.events["ttft"].total().total - first.windows.events["ttft"].total().total == 70


async def test_nothing_fires_or_ends_because_we_were_away(tmp_path: Path) -> None:
    """Back after an hour, before the first page and after it: what fired fires, and nothing else does."""
    first = await saved(tmp_path / "s.db", seconds=4 * 86_400, step_seconds=600)
    memory = reopened(tmp_path / "s.db", T0 + 4200)
    assert len(first.alerts.firing) >= 4
    assert tick(plan(), memory, T0 + 4200.5).changed_alerts == ()
    memory.windows.take(engine_at(T0 + 4205).reading(T0 + 4205))
    changed = tick(plan(), memory, T0 + 4206).changed_alerts
    assert changed == ()
    assert memory.alerts.firing.keys() == first.alerts.firing.keys()


async def test_another_objective_keeps_the_history_and_another_threshold_begins_anew(tmp_path: Path) -> None:
    first = await saved(tmp_path / "s.db")
    total = first.windows.events["ttft"].total()
    memory = reopened(tmp_path / "s.db", T0 + 601)
    tick(plan(objective=0.9), memory, T0 + 601)
    assert memory.windows.events["ttft"].total() == total
    tick(plan(threshold=5.0), memory, T0 + 602)
    assert memory.windows.events["ttft"].total() == Counts()


async def test_an_slo_that_begins_anew_leaves_no_old_buckets_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await saved(path)
    keeper = Keeper(config(path).state)
    memory = keeper.open(plan(threshold=5.0), T0 + 601)
    await keeper.save(memory, plan(threshold=5.0), T0 + 601)
    keeper.close()
    again = reopened(path, T0 + 602)
    assert again.windows.events["ttft"].since(0) == Counts()


async def test_a_save_that_fails_is_made_up_for_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk once: the next save writes all that the failed one would have."""
    path, told = tmp_path / "s.db", []
    keeper, memory = Keeper(config(path).state, lambda *said: told.append(said)), Memory()
    keeper.open(plan(), T0)
    with monkeypatch.context() as broken:

        def full(*_arguments: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        broken.setattr(StateFile, "save", full)
        for step in range(3):
            memory.windows.take(engine_at(T0 + 10 * step).reading(T0 + 10 * step))
            await keeper.save(memory, plan(), T0 + 10 * step)
    await keeper.save(memory, plan(), T0 + 30)
    keeper.close()
    assert told == [("state", "failed")] * 3 + [("state", "ok")]
    again = reopened(path, T0 + 31)
    assert again.windows.events["ttft"].since(T0 + 5) == memory.windows.events["ttft"].since(T0 + 5)
    assert again.windows.events["ttft"].total().total == PER_SECOND * 20


@pytest.mark.parametrize("seed", range(24))
async def test_a_damaged_file_is_the_same_memory_or_a_lost_one_never_a_wrong_one(tmp_path: Path, seed: int) -> None:
    """A byte changed or the end cut off, anywhere: SQLite or a checksum notices, or the byte bore nothing."""
    path, dice = tmp_path / "s.db", random.Random(seed)  # noqa: S311  a fuzzer
    first = await saved(path, 60)
    body = bytearray(path.read_bytes())
    place = dice.randrange(len(body))
    if seed % 4:
        body[place] ^= 1 << dice.randrange(8)
    else:
        del body[seed and place :]
    path.write_bytes(body)
    try:
        memory = reopened(path, T0 + 601)
    except StateError:
        return  # told, and nothing was touched
    if memory.lost_at_seconds is None:
        assert memory.windows.events["ttft"].since(0) == first.windows.events["ttft"].since(0)
        assert memory.windows.raw == first.windows.raw


async def test_a_lost_state_is_told_and_no_budget_is_called_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"this is no database, whatever its name says" * 99)
    memory = reopened(path, T0)
    memory.windows.take(engine_at(T0).reading(T0))
    memory.windows.take(engine_at(T0 + 10).reading(T0 + 10))
    effects = tick(plan(), memory, T0 + 10)
    assert "SLOStateLost" in {alert.name for alert in effects.changed_alerts}
    assert effects.snapshot.slos[0].budget.remaining_ratio is None
    assert effects.snapshot.slos[0].budget.counts.total == 10 * PER_SECOND
    assert path.with_name(f"s.db.damaged-{T0:.0f}").read_bytes().startswith(b"this is no database")


async def test_a_file_with_a_wrong_checksum_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    await saved(path, 60)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE parts SET body = zeroblob(length(body)) WHERE name LIKE 'buckets/%'")
    database.close()
    file = StateFile(path)
    with pytest.raises(StateLostError, match=r"checksum of buckets/0/ttft\[\d+\] is wrong"):
        file.rows()
    file.close()


async def test_a_row_of_another_shape_is_lost(tmp_path: Path) -> None:
    """Whole by its checksum, and none of ours: as another version might have written it."""
    path = tmp_path / "s.db"
    await saved(path, 60)
    file = StateFile(path)
    rows = {name: json.loads(body) for name, _, body in file.rows() if name.startswith("target/")}
    for name, form in rows.items():
        file.save([], [(name, 0, json.dumps({**form, "probes": [["ok"]]}).encode())])
    file.close()
    assert reopened(path, T0 + 601).lost_at_seconds == T0 + 601


def test_a_newer_schema_is_refused_with_a_mend_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    StateFile(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 7")
    database.close()
    with pytest.raises(
        StateError, match=r"newer slo-agent wrote it \(schema 7; this one knows 2\). Start that version"
    ):
        StateFile(path)
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (7,)
    database.close()


def test_one_file_has_one_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.state.BUSY_SECONDS", 0.1)
    path = tmp_path / "s.db"
    first = StateFile(path)
    with pytest.raises(StateError, match=r"database is locked. Another agent may hold it"):
        StateFile(path)
    first.close()
    StateFile(path).close()


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="The folder must be there and be writable"):
        StateFile(tmp_path / "no" / "such" / "s.db")


def test_killed_again_and_again_no_event_is_lost_or_doubled(tmp_path: Path) -> None:
    """kill -9, eight times: counts are those of the counters, and the alert fires since its beginning."""
    kill_again_and_again(tmp_path / "s.db", times=8)


def kill_again_and_again(path: Path, times: int) -> None:
    """A child reads an engine that works by the clock, ticks and saves; it is killed, and what it saved is judged."""
    dice, since, seen = random.Random(9), set(), 0.0  # noqa: S311  moments
    for _ in range(times):
        child = subprocess.Popen([sys.executable, str(CHILD), str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"goes\n"
        time.sleep(dice.random() * 0.25)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        memory = reopened(path, T0)
        if not memory.windows.targets:
            continue  # killed before its first save
        (log,) = memory.windows.targets.values()
        assert log.last_ok is not None
        began = log.first_attempt_at_seconds
        counted, done = (engine_at(at).counts["ttft_seconds"] for at in (began, log.last_ok.at_seconds))
        total = memory.windows.events["ttft"].total()
        assert total == Counts(good=sum(done[:5]) - sum(counted[:5]), bad=sum(done[5:]) - sum(counted[5:]))
        assert total.total >= seen
        seen = total.total
        since |= {(alert.labels, alert.starts_at_seconds) for alert in memory.alerts.firing.values()}
    assert seen > 0
    assert len(since) == len({labels for labels, _ in since}) > 0


async def test_a_running_agent_goes_on_with_the_alerts_of_the_one_before(tmp_path: Path) -> None:
    """Nobody answers at the target's address: one EngineUnreachable, since the first agent saw it."""
    scrape = {"interval_seconds": 0.1, "timeout_seconds": 0.1, "down_after_seconds": 0.3}
    of = quick(targets=[target("a", "http://127.0.0.1:9")], scrape=scrape, state={"path": tmp_path / "s.db"})
    since = []
    for _ in range(2):
        heard: list[Effects] = []
        async with agent(of, listeners=Listeners((heard.append,))).running() as running:
            await until(lambda heard=heard: any(e.snapshot.alerts for e in heard), "an alert")
            await until(lambda heard=heard: len(heard) > 8, "a few ticks")
            await until(lambda: ("state", "ok") in points(running, "slo_agent_deliveries_total"), "a save")
            since.append([(alert.name, alert.starts_at_seconds) for alert in heard[-1].snapshot.alerts])
    assert since[0] == since[1]
    assert since[0][0][0] == "EngineUnreachable"
    assert [alert for effects in heard for alert in effects.changed_alerts] == []


def test_a_full_disk_is_called_one() -> None:
    """SQLite's own error: a database that may not grow says what a full disk says."""
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA max_page_count = 1")
    with pytest.raises(sqlite3.OperationalError) as caught:
        database.execute("CREATE TABLE t (x)")
    database.close()
    assert str(caught.value) == "database or disk is full"
    assert _mend(caught.value).startswith("The disk is full")


def test_a_state_file_that_nobody_may_write_is_called_one(tmp_path: Path) -> None:
    StateFile(tmp_path / "state.db").close()
    database = sqlite3.connect(f"file:{tmp_path / 'state.db'}?mode=ro", uri=True)
    with pytest.raises(sqlite3.OperationalError) as caught:
        database.execute("CREATE TABLE t (x)")
    database.close()
    assert "writable" in _mend(caught.value)
