"""The file people keep: one line per change."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from filled_view import ADVICE, ALERT, NOW

from agent.model import Effects, Snapshot
from agent.outputs.jsonable import alert_json, recommendation_json
from agent.outputs.jsonl import MAX_WAITING_LINES, JsonlOutput

SNAPSHOT = Snapshot(NOW, (), (), (), ())
BOTH = Effects((ALERT,), (ADVICE,), SNAPSHOT)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_alerts_and_recommendations_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    over = replace(ALERT, ends_at_seconds=NOW)
    JsonlOutput(path).write(BOTH)
    JsonlOutput(path).write(Effects((over,), (), SNAPSHOT))
    assert lines(path) == [
        {"kind": "alert", "at": NOW, **alert_json(ALERT)},
        {"kind": "recommendation", **recommendation_json(ADVICE)},
        {"kind": "alert", "at": NOW, **alert_json(over)},
    ]


def test_a_tick_without_a_change_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    JsonlOutput(path).write(Effects((), (), SNAPSHOT))
    assert not path.exists()


def test_a_file_that_was_rotated_away_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    output = JsonlOutput(path)
    output.write(BOTH)
    path.rename(tmp_path / "out.jsonl.1")
    output.write(BOTH)
    assert len(lines(path)) == 2


def test_a_line_cut_short_by_a_crash_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text('{"kind":"al')
    JsonlOutput(path).write(BOTH)
    first, *others = path.read_text().splitlines()
    assert first == '{"kind":"al'
    assert [json.loads(line)["kind"] for line in others] == ["alert", "recommendation"]


def test_what_could_not_be_written_comes_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The folder is not there yet; trouble and its end are one log line each."""
    caplog.set_level(logging.INFO)
    told: list[tuple[str, str]] = []
    path = tmp_path / "later" / "out.jsonl"
    output = JsonlOutput(path, lambda *one: told.append(one))
    output.write(BOTH)
    output.write(BOTH)
    path.parent.mkdir()
    output.write(BOTH)
    assert len(lines(path)) == 6
    assert told == [("jsonl", "failed"), ("jsonl", "failed"), ("jsonl", "ok")]
    assert [record.getMessage().split(" path=")[0] for record in caplog.records] == [
        "jsonl not written",
        "jsonl written again",
    ]


def test_what_waits_is_bounded_and_the_loss_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    output = JsonlOutput(tmp_path / "never" / "out.jsonl", lambda _output, outcome: told.append(outcome))
    output.write(Effects((ALERT,) * (MAX_WAITING_LINES + 3), (), SNAPSHOT))
    assert told == ["dropped"] * 3 + ["failed"]
