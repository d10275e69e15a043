"""Prometheus text and OpenMetrics pages: the hot path from lines to numbers.

A page of one target holds the same series at every scrape, so what a series *means* is worked out once and kept: a
line seen before costs a look-up and a float.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Meaning = TypeVar("Meaning")
Resolve = Callable[[str, Mapping[str, str]], Meaning | None]

MAX_LABEL_BYTES = 65_536  # a label value longer than this is not a metric but an accident


@dataclass(slots=True)
class PageValues(Generic[Meaning]):
    """What one page said: numbers by meaning, and what was wrong with the rest (counts of lines)."""

    values: dict[Meaning, float] = field(default_factory=dict)
    series: int = 0
    malformed: int = 0
    not_finite: int = 0
    duplicates: int = 0
    dropped_series: int = 0


class PageParser(Generic[Meaning]):
    """Reads the pages of one target.

    `resolve(name, labels)` says what a series means, or None for one that no signal needs; it is asked once a series.
    At most `max_series` are remembered; further ones are counted as dropped, never silently lost.
    """

    def __init__(self, resolve: Resolve[Meaning], max_series: int = 200_000) -> None:
        self._resolve = resolve
        self._max_series = max_series
        self._known: dict[str, Meaning | None] = {}

    def parse(self, text: str) -> PageValues[Meaning]:
        """All numbers of the page. Malformed lines are counted, not raised. An empty page gives no values."""
        page: PageValues[Meaning] = PageValues()
        known, values = self._known, page.values
        for line in text.split("\n"):
            if not line or line[0] == "#":
                continue
            head, _, tail = line.rpartition(" ")
            meaning = known.get(head, self)
            if meaning is self:
                self._read_new(line, page)
                continue
            page.series += 1
            if meaning is not None:
                self._keep(page, values, meaning, tail)  # type: ignore[arg-type]  # self is the mark of "not known"
        return page

    def _keep(self, page: PageValues[Meaning], values: dict[Meaning, float], meaning: Meaning, text: str) -> None:
        try:
            value = float(text)
        except ValueError:
            page.malformed += 1
            return
        if not math.isfinite(value):
            page.not_finite += 1
        elif meaning in values:
            page.duplicates += 1
        else:
            values[meaning] = value

    def _read_new(self, line: str, page: PageValues[Meaning]) -> None:
        """A line whose head was not seen before, or which carries a time stamp or an exemplar."""
        parts = _split(line.rstrip("\r"))
        if parts is None:
            page.malformed += 1
            return
        head, name, labels, text = parts
        page.series += 1
        if head in self._known:
            meaning = self._known[head]
        elif len(self._known) >= self._max_series:
            page.dropped_series += 1
            return
        else:
            meaning = self._known[head] = self._resolve(name, labels)
        if meaning is not None:
            self._keep(page, page.values, meaning, text)


def _split(line: str) -> tuple[str, str, dict[str, str], str] | None:
    """(head, name, labels, value text) of a sample line; None when it is none."""
    brace = line.find("{")
    if brace < 0 or " " in line[:brace]:
        words = line.split(" # ", maxsplit=1)[0].split()
        return (words[0], words[0], {}, words[1]) if len(words) in (2, 3) else None
    labels, end = _labels(line, brace + 1)
    if labels is None:
        return None
    words = line[end:].split(" # ", maxsplit=1)[0].split()
    return (line[:end], line[:brace], labels, words[0]) if len(words) in (1, 2) else None


def _labels(line: str, start: int) -> tuple[dict[str, str] | None, int]:
    """Labels from `start` (after the brace) and the position behind the closing brace; None when malformed."""
    labels: dict[str, str] = {}
    position = start
    while position < len(line):
        if line[position] in ", ":
            position += 1
            continue
        if line[position] == "}":
            return labels, position + 1
        equals = line.find('="', position)
        if equals < 0:
            return None, position
        value, position_after = _quoted(line, equals + 2)
        if value is None or len(value) > MAX_LABEL_BYTES:
            return None, position
        labels[line[position:equals].strip()] = value
        position = position_after
    return None, position


def _quoted(line: str, start: int) -> tuple[str | None, int]:
    """The label value from `start` (after the quote), unescaped, and the position behind the closing quote."""
    end = line.find('"', start)
    while end > 0 and _is_escaped(line, end):
        end = line.find('"', end + 1)
    if end < 0:
        return None, start
    raw = line[start:end]
    if "\\" in raw:
        raw = raw.replace("\\\\", "\0").replace('\\"', '"').replace("\\n", "\n").replace("\0", "\\")
    return raw, end + 1


def _is_escaped(line: str, position: int) -> bool:
    backslashes = 0
    while line[position - 1 - backslashes] == "\\":
        backslashes += 1
    return backslashes % 2 == 1
