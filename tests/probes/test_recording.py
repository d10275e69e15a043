"""Recordings: what is written is read back, a crash costs the last line at most, and bad lines are named."""

import contextlib
import gzip
import json
import math
from dataclasses import asdict
from pathlib import Path

import pytest
from page_files import fixture

from probes.page import SystemPage
from probes.recording import Entry, EntryReader, RecordingError, RecordingWriter, read_entries
from probes.sample import ProbeResult, Reading

PROBE = ProbeResult(
    target="a", kind="chat", outcome="ok", planned_at_seconds=9.5, at_seconds=10.0, model="m", ttft_seconds=0.1,
    itl_gaps_seconds=(0.01, 0.02), e2e_seconds=0.2, output_tokens=3, phases={"dns": None, "connect": 0.001},
    flags=("late",), request_id="r",
)  # fmt: skip


def lines(path: Path, *texts: str) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(text + "\n" for text in texts)
    return path


def entry(at: object = 1.0, body: str = "{}", source: str = "nvml") -> str:
    return json.dumps({"at": at, "target": "a", "source": source, "body": body})


def test_reads_back_what_was_written(tmp_path: Path) -> None:
    """A page, a failed look, a GPU and a canary: the same readings as live, but for what only a look can know."""
    path = tmp_path / "r.jsonl.gz"
    page = SystemPage("vllm").read(fixture("vllm_0.32_cpu"), "a", 10.0)
    failed = Reading("a", "vllm", 11.0, "timeout", "no page within 5 s")
    writer = RecordingWriter(path)
    writer.write_scrape(page, "# HELP a comment\n" + fixture("vllm_0.32_cpu"))
    writer.write_scrape(failed, "")
    writer.write_gpu(12.0, "gpu-0", {"gpu": 99, "temp": 61})
    writer.write_probe(PROBE)
    writer.close()
    reader = EntryReader()
    entries = list(read_entries(path))
    seen = [reader.read(found) for found in entries]
    assert [found.source for found in entries] == ["vllm", "scrape", "nvml", "probe"]
    assert "#" not in entries[0].body
    assert seen[0] == page
    assert seen[1] == failed
    assert isinstance(seen[2], Reading)
    assert [sample.value for sample in seen[2].samples] == [0.99, 61]
    assert seen[3] == PROBE


def test_the_format_is_the_documented_one(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    writer = RecordingWriter(path)
    writer.write(Entry(1.5, "a", "vllm", "x 1\n"))
    writer.close()
    assert gzip.decompress(path.read_bytes()) == b'{"at":1.5,"target":"a","source":"vllm","body":"x 1\\n"}\n'


def test_every_entry_is_on_disk_when_write_returns(tmp_path: Path) -> None:
    """Nobody closed the file: that is a crash, and nothing is lost."""
    writer = RecordingWriter(tmp_path / "r.jsonl.gz")
    for second in range(3):
        writer.write(Entry(float(second), "a", "vllm", "x 1\n"))
        copy = tmp_path / f"{second}.jsonl.gz"
        copy.write_bytes((tmp_path / "r.jsonl.gz").read_bytes())
        assert [found.at_seconds for found in read_entries(copy)] == [float(s) for s in range(second + 1)]
    writer.close()


def test_entries_are_ordered_by_time_even_when_a_result_comes_late(tmp_path: Path) -> None:
    """A canary's result is there when it ends, long after its start: it stands where it came, its own times kept."""
    writer = RecordingWriter(tmp_path / "r.jsonl.gz")
    writer.write(Entry(50.0, "a", "vllm", "x 1\n"))
    writer.write_probe(PROBE)
    writer.close()
    entries = list(read_entries(tmp_path / "r.jsonl.gz"))
    assert [found.at_seconds for found in entries] == [50.0, 50.0]
    assert EntryReader().read(entries[1]) == PROBE


def test_a_file_cut_anywhere_gives_whole_entries_or_says_that_there_are_none(tmp_path: Path) -> None:
    whole = [Entry(float(n), "a", "vllm", f"x {n * 7919 % 101}\n") for n in range(20)]
    writer = RecordingWriter(tmp_path / "r.jsonl.gz")
    for found in whole:
        writer.write(found)
    writer.close()
    raw = (tmp_path / "r.jsonl.gz").read_bytes()
    cut = tmp_path / "cut.jsonl.gz"
    for size in range(1, len(raw), 7):
        cut.write_bytes(raw[:size])
        read = []
        with contextlib.suppress(RecordingError):  # no entry is whole
            read = list(read_entries(cut))
        assert read == whole[: len(read)]
    assert len(read) >= len(whole) - 1


def test_a_damaged_file_gives_what_comes_before_the_damage(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "r.jsonl.gz")
    for second in range(400):
        writer.write(Entry(float(second), "a", "vllm", "x " * second + "\n"))
    writer.close()
    raw = bytearray((tmp_path / "r.jsonl.gz").read_bytes())
    raw[len(raw) // 2 :] = b"\xff" * (len(raw) - len(raw) // 2)
    (tmp_path / "r.jsonl.gz").write_bytes(raw)
    read = []
    with pytest.raises(RecordingError) as caught:  # noqa: PT012  what came before the error counts too
        for found in read_entries(tmp_path / "r.jsonl.gz"):
            read.append(found)  # noqa: PERF402  list() would lose them
        raise RecordingError("ended quietly")
    assert read
    assert str(caught.value) == "ended quietly"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("{broken", "line 2 is no entry", id="no JSON"),
        pytest.param("[]", "line 2 is no entry", id="a list"),
        pytest.param("7", "line 2 is no entry", id="a number"),
        pytest.param('{"at": 1, "target": "a", "source": "vllm"}', "no 'body'", id="no body"),
        pytest.param(entry(at="soon"), "could not convert", id="a word for a time"),
        pytest.param(entry(at=None), "line 2 is no entry", id="no time"),
        pytest.param(entry(at=math.nan), "line 2 has no time", id="NaN for a time"),
        pytest.param("[" * 100_000, "line 2 is no entry", id="nested without end"),
        pytest.param("", "line 2 is no entry", id="a blank line"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    path = lines(tmp_path / "r.jsonl.gz", entry(), line, entry())
    with pytest.raises(RecordingError) as caught:
        list(read_entries(path))
    assert str(caught.value).startswith(str(path))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("source", "body", "words"),
    [
        pytest.param("nvml", "[]", "not a mapping", id="GPU: a list"),
        pytest.param("nvml", "{broken", "Expecting", id="GPU: no JSON"),
        pytest.param("probe", "[]", "not a mapping", id="canary: a list"),
        pytest.param("probe", '{"target": "a"}', "outcome", id="canary: keys missing"),
        pytest.param(
            "probe", json.dumps(asdict(PROBE) | {"ttft_seconds": "soon"}), "ttft_seconds", id="canary: a word"
        ),
        pytest.param("scrape", "{}", "no 'outcome'", id="look: keys missing"),
        pytest.param("scrape", "null", "not a mapping", id="look: null"),
    ],
)
def test_a_bad_body_is_named(source: str, body: str, words: str) -> None:
    with pytest.raises(RecordingError) as caught:
        EntryReader().read(Entry(12.5, "a", source, body))
    assert f"The {source} entry of a at 12.500" in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_sources_and_keys_are_ignored() -> None:
    """A recording of a later version is still good for what we know."""
    reader = EntryReader()
    assert reader.read(Entry(1.0, "a", "later", "{}")) is None
    assert reader.read(Entry(1.0, "a", "probe", json.dumps(asdict(PROBE) | {"new": 1}))) == PROBE


def test_a_page_that_is_none_is_an_outcome_not_an_error() -> None:
    reading = EntryReader().read(Entry(1.0, "a", "vllm", "garbage"))
    assert isinstance(reading, Reading)
    assert reading.outcome == "not_vllm"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        pytest.param(b"not gzip", "is not gzip'd", id="plain text"),
        pytest.param(b"\x1f\x8b\x08", "damaged", id="a header and no more"),
        pytest.param(gzip.compress(b"\xff\xfe\n"), "not UTF-8", id="not text"),
    ],
)
def test_a_file_that_is_no_recording_says_so(tmp_path: Path, raw: bytes, words: str) -> None:
    (tmp_path / "r.jsonl.gz").write_bytes(raw)
    with pytest.raises(RecordingError, match=words):
        list(read_entries(tmp_path / "r.jsonl.gz"))


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file"):
        list(read_entries(tmp_path / "none.jsonl.gz"))
    with pytest.raises(RecordingError, match="directory"):
        list(read_entries(tmp_path))
