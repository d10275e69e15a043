"""Targets from a file: changes are picked up, and a broken file never takes the last good list away."""

import os
from pathlib import Path

import pytest

from probes.discovery.file import FileTargets, Found

GOOD = '[{"targets": ["a:8000", "b:8000"], "labels": {"service": "chat", "gpus": 8}}, {"targets": ["c:9000"]}]'


def written(path: Path, text: str, at_seconds: float) -> None:
    """The file as it is at that time, whatever the clock of the file system resolves."""
    path.write_text(text, encoding="utf-8")
    os.utime(path, (at_seconds, at_seconds))


def test_reads_addresses_and_labels(tmp_path: Path) -> None:
    written(tmp_path / "t.json", GOOD, 1)
    labels = {"service": "chat", "gpus": "8"}
    files = FileTargets(tmp_path / "t.json")
    assert files.look() == (Found("a:8000", labels), Found("b:8000", labels), Found("c:9000", {}))
    assert files.trouble == ""


def test_reads_yaml_alike(tmp_path: Path) -> None:
    written(tmp_path / "t.yaml", "- targets: [a:8000]\n  labels:\n    role: decode\n", 1)
    assert FileTargets(tmp_path / "t.yaml").look() == (Found("a:8000", {"role": "decode"}),)


def test_picks_up_a_change(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    written(path, GOOD, 1)
    files = FileTargets(path)
    files.look()
    written(path, '[{"targets": ["d:8000"]}]', 2)
    assert files.look() == (Found("d:8000", {}),)
    written(path, "[]", 3)
    assert files.look() == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("{broken", "Expecting", id="no JSON"),
        pytest.param('{"targets": []}', "expected a list", id="no list"),
        pytest.param('["a:8000"]', "group 0 lacks", id="no groups"),
        pytest.param('[{"targets": ["a:1"]}, {"target": ["a:8000"]}]', "group 1 lacks", id="a misspelt key"),
        pytest.param('[{"targets": "a:8000"}]', "group 0 lacks", id="one word for a list"),
        pytest.param('[{"targets": [["a:8000"]]}]', "group 0 lacks", id="a list in the list"),
        pytest.param('[{"targets": [8000]}]', "group 0 lacks", id="a number for an address"),
        pytest.param('[{"targets": ["a:1"], "labels": "x"}]', "labels of group 0", id="a word for labels"),
        pytest.param('[{"targets": ["a:1"], "labels": {"a": []}}]', "labels of group 0", id="a list for a label"),
        pytest.param("[" * 100_000, "", id="nested without end"),
        pytest.param("null", "expected a list", id="nothing"),
    ],
)
def test_a_broken_file_keeps_the_last_list_and_says_why(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "t.json"
    written(path, GOOD, 1)
    files = FileTargets(path)
    before = files.look()
    written(path, text, 2)
    assert files.look() == before
    assert words in files.trouble
    assert files.trouble.startswith(str(path))
    assert "last good list (3 targets) stays in use" in files.trouble
    assert "\n" not in files.trouble
    written(path, GOOD, 3)
    assert files.look() == before
    assert files.trouble == ""


def test_broken_yaml_is_told_in_one_line(tmp_path: Path) -> None:
    written(tmp_path / "t.yaml", "- targets: [a\n  labels: {", 1)
    files = FileTargets(tmp_path / "t.yaml")
    assert files.look() == ()
    assert "\n" not in files.trouble
    assert "line" in files.trouble


def test_a_file_that_vanishes_keeps_the_last_list(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    written(path, GOOD, 1)
    files = FileTargets(path)
    before = files.look()
    path.unlink()
    assert files.look() == before
    assert "No such file" in files.trouble


def test_a_file_that_is_not_utf_8_is_trouble(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(b"\xff\xfe[]")
    files = FileTargets(tmp_path / "t.json")
    assert files.look() == ()
    assert files.trouble


def test_a_file_that_has_not_changed_is_not_parsed_again(tmp_path: Path) -> None:
    """Same time and size, other words: the old list stays, which shows that nothing was read."""
    path = tmp_path / "t.json"
    written(path, '[{"targets": ["a:1"]}]', 1)
    files = FileTargets(path)
    files.look()
    written(path, '[{"targets": ["b:1"]}]', 1)
    assert files.look() == (Found("a:1", {}),)
