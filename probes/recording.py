"""Recordings: gzip'd JSON lines of what was seen, ordered by time; the format stands in docs/recordings.md."""

import contextlib
import gzip
import json
import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from probes.discovery.file import Found
from probes.nvml import gpu_reading
from probes.page import BOOKS, SystemPage
from probes.sample import ProbeResult, Reading
from probes.spans.result import SpanResult, read_span, span_body

PAGE_SOURCES = tuple(BOOKS)
_PROBE = TypeAdapter(ProbeResult)


class RecordingError(ValueError):
    """A recording that cannot be used; the text says which, where and why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: what was seen of `target` by `source` at `at_seconds`. `body` is a page, or JSON."""

    at_seconds: float
    target: str
    source: str
    body: str


class RecordingWriter:
    """Appends entries to a new file; every entry is on disk when `write` returns, a crash loses none.

    Entries stand in the order in which they came, and `at` never falls: what tells of an earlier time (a canary, when
    it ends) gets the `at` of the one before, and keeps its own times in its body.
    """

    def __init__(self, path: Path) -> None:
        self._file = gzip.open(path, "wt", encoding="utf-8", compresslevel=5)  # noqa: SIM115  closed by close()
        self._last_at_seconds = -math.inf

    def write(self, entry: Entry) -> None:
        self._last_at_seconds = max(self._last_at_seconds, entry.at_seconds)
        line = {"at": self._last_at_seconds, "target": entry.target, "source": entry.source, "body": entry.body}
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")
        self._file.flush()

    def write_scrape(self, reading: Reading, body: str) -> None:
        """A page as served (without comments), or, where there was none, the reason as source `scrape`."""
        if reading.outcome == "ok":
            kept = "\n".join(line for line in body.split("\n") if line and line[0] != "#") + "\n"
            self.write(Entry(reading.at_seconds, reading.target, reading.source, kept))
        else:
            why = json.dumps({"outcome": reading.outcome, "detail": reading.detail, "source": reading.source})
            self.write(Entry(reading.at_seconds, reading.target, "scrape", why))

    def write_target(self, at_seconds: float, found: Found) -> None:
        """What is known of a target, as discovery would give it; its name is the label `name`."""
        body = json.dumps({"address": found.address, "labels": dict(found.labels)})
        self.write(Entry(at_seconds, found.labels["name"], "target", body))

    def write_gpu(self, at_seconds: float, target: str, body: dict[str, Any]) -> None:
        self.write(Entry(at_seconds, target, "nvml", json.dumps(body)))

    def write_probe(self, result: ProbeResult) -> None:
        self.write(Entry(result.at_seconds, result.target, "probe", json.dumps(asdict(result))))

    def write_spans(self, at_seconds: float, spans: Iterable[SpanResult]) -> None:
        for span in spans:
            self.write(Entry(at_seconds, span.target, "span", json.dumps(span_body(span))))

    def close(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        """Close after a failed write: what is on disk stays, what did not fit is given up."""
        with contextlib.suppress(OSError):
            self._file.close()


def read_entries(path: Path) -> Iterator[Entry]:
    """Every entry of the file, in order. A file cut off by a crash gives what it has.

    Raises RecordingError when it is not there, not gzip'd JSON lines, or a line lacks a key.
    """
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                yield _entry(path, number, line)
    except (EOFError, zlib.error) as error:
        if number == 0:
            raise RecordingError(f"{path}: is empty or damaged. Record again with `slo-agent record`.") from error
    except gzip.BadGzipFile as error:
        raise RecordingError(f"{path}: is not gzip'd. A recording ends in .jsonl.gz.") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise RecordingError(f"{path}: cannot be read: {reason}.") from error


def _entry(path: Path, number: int, line: str) -> Entry:
    try:
        fields = json.loads(line)
        entry = Entry(float(fields["at"]), str(fields["target"]), str(fields["source"]), str(fields["body"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise RecordingError(
            f'{path}: line {number} is no entry ({reason}). Expected {{"at", "target", "source", "body"}}.'
        ) from error
    if not math.isfinite(entry.at_seconds):
        raise RecordingError(f"{path}: line {number} has no time (at is {entry.at_seconds}). Expected unix seconds.")
    return entry


def target_in(entry: Entry) -> Found | None:
    """What an entry tells of its target; None for an entry that tells what was seen. Raises RecordingError."""
    if entry.source != "target":
        return None
    try:
        body = json.loads(entry.body)
        labels = {str(label): str(value) for label, value in body["labels"].items()}
        return Found(str(body["address"]), labels | {"name": entry.target})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordingError(f"The target entry of {entry.target} at {entry.at_seconds:.3f} cannot be used.") from error


class EntryReader:
    """Turns entries back into readings, canary results and spans, one page reader per target."""

    def __init__(self) -> None:
        self._pages: dict[tuple[str, str], SystemPage] = {}

    def read(self, entry: Entry) -> Reading | ProbeResult | SpanResult | None:
        """What was seen; None for an entry that tells of its target, and for a source this version does not know."""
        if entry.source in PAGE_SOURCES:
            page = self._pages.setdefault((entry.target, entry.source), SystemPage(entry.source))
            return page.read(entry.body, entry.target, entry.at_seconds)
        if entry.source not in ("nvml", "scrape", "probe", "span"):
            return None
        try:
            return _from_json(entry, json.loads(entry.body))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
            raise RecordingError(
                f"The {entry.source} entry of {entry.target} at {entry.at_seconds:.3f} cannot be used: {reason}."
            ) from error


def _from_json(entry: Entry, body: object) -> Reading | ProbeResult | SpanResult:
    if not isinstance(body, dict):
        raise TypeError(f"its body is a {type(body).__name__}, not a mapping")
    if entry.source == "nvml":
        return gpu_reading(entry.target, entry.at_seconds, body)
    if entry.source == "probe":
        known = {key: value for key, value in body.items() if key in ProbeResult.__dataclass_fields__}
        return _PROBE.validate_python(known)
    if entry.source == "span":
        return read_span({**body, "target": entry.target})
    outcome, detail = str(body["outcome"]), str(body.get("detail", ""))
    return Reading(entry.target, str(body["source"]), entry.at_seconds, outcome, detail)
