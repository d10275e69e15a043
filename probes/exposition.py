"""Prometheus text and OpenMetrics pages: the hot path from lines to numbers.

A page of one target holds the same series at every scrape, so what a series *means* is worked out once and kept: a
line seen before costs a look-up and a float.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Meaning = TypeVar("Meaning")
Resolve = Callable[[str, Mapping[str, str]], Meaning | None]

MAX_LABEL_BYTES = 65_536  # a label value longer than this is not a metric but an accident
MAX_UNNEEDED_NAMES = 20_000  # remembered by name alone; a page has some hundreds
MAX_KNOWN_BYTES = 64_000_000  # of remembered series; a page of 1,000 series needs about 0.2 MB
SLICE_CHARACTERS = 262_144
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"([^"\\]*+(?:\\.[^"\\]*+)*+)"\s*(?:,|(?=\}))')
_END = re.compile(r"\s*\}")
_WORD = re.compile(r"[^ \t\r]+")  # str.split would cut at \x1c and its like as well, and make two numbers of one
_ESCAPE = re.compile(r"\\(.)")


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

    `needs(name)` says whether any series of that name can matter: those of other names are only counted, and whether
    their lines are well formed is not looked at.

    `resolve(name, labels)` says what a series means, or None for one that no signal needs; it is asked once a series.
    At most `max_series` of one page are remembered; further ones are counted as dropped, never silently lost. When the
    memory is full of series that came and went, the next page starts a new one.
    """

    def __init__(
        self, resolve: Resolve[Meaning], needs: Callable[[str], bool] = lambda _name: True, max_series: int = 200_000
    ) -> None:
        self._resolve = resolve
        self._needs = needs
        self._unneeded: set[str] = set()
        self._max_series = max_series
        self._known: dict[str, Meaning | None] = {}
        self._known_bytes = 0

    def parse(self, text: str) -> PageValues[Meaning]:
        """All numbers of the page. Malformed lines are counted, not raised. An empty page gives no values."""
        page: PageValues[Meaning] = PageValues()
        if self.is_full:
            self._known.clear()
            self._known_bytes = 0
        known, unneeded, values = self._known, self._unneeded, page.values
        series = 0
        for line in _lines(text):
            if not line or line[0] == "#":
                continue
            head, _, tail = line.rpartition(" ")
            meaning = known.get(head, self)
            if meaning is self:
                if line[: line.find("{")] in unneeded:
                    series += 1
                else:
                    self._read_new(line, page)
                continue
            series += 1
            if meaning is None:
                continue
            try:
                value = float(tail)
            except ValueError:
                series -= 1
                self._read_new(line, page)  # as at first sight: the line may end in more than a number
                continue
            if value - value != 0 or meaning in values or "_" in tail:  # the difference is NaN for what is not finite
                self._keep(page, values, meaning, tail)  # type: ignore[arg-type]  # self is the mark of "not known"
            else:
                values[meaning] = value  # type: ignore[index]
        page.series += series
        return page

    @property
    def is_full(self) -> bool:
        """No further series can be remembered; the next page starts a new memory."""
        return len(self._known) >= self._max_series or self._known_bytes >= MAX_KNOWN_BYTES

    def _keep(self, page: PageValues[Meaning], values: dict[Meaning, float], meaning: Meaning, text: str) -> None:
        try:
            value = float(text)
        except ValueError:
            page.malformed += 1
            return
        if "_" in text:  # Python reads 1_000 as a number, the format does not
            page.malformed += 1
        elif not math.isfinite(value):
            page.not_finite += 1
        elif meaning in values:
            page.duplicates += 1
        else:
            values[meaning] = value

    def _read_new(self, line: str, page: PageValues[Meaning]) -> None:
        """A line whose head was not seen before, or that no signal needs, or with a time stamp or an exemplar."""
        brace = line.find("{")
        if (line[:brace] if brace > 0 else line.partition(" ")[0]) in self._unneeded:
            page.series += 1
            return
        stripped = line.strip(" \t\r")
        if not stripped or stripped[0] == "#":
            return  # blank but for its line end, or an indented comment
        parts = _split(stripped)
        if parts is None:
            page.malformed += 1
            return
        head, name, labels, text = parts
        page.series += 1
        if not self._needs(name):
            if len(self._unneeded) < MAX_UNNEEDED_NAMES:
                self._unneeded.add(name)
            return
        if head in self._known:
            meaning = self._known[head]
        elif self.is_full:
            page.dropped_series += 1
            return
        else:
            meaning = self._known[head] = self._resolve(name, labels)
            self._known_bytes += len(head)
        if meaning is not None:
            self._keep(page, page.values, meaning, text)


def _lines(text: str) -> Iterator[str]:
    """Line by line, from slices cut at a line's end: to cut a huge page at once would hold up every thread."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + SLICE_CHARACTERS)
        end = len(text) if end < 0 else end
        yield from text[start:end].split("\n")
        start = end + 1


def _split(line: str) -> tuple[str, str, dict[str, str], str] | None:
    """(head, name, labels, value text) of a sample line; None when it is none."""
    name = _NAME.match(line)
    if name is None:
        return None
    end = name.end()
    rest = line[end:].lstrip()
    labels: dict[str, str] | None = {}
    if rest[:1] == "{":
        labels, end = _labels(line, line.index("{", end) + 1)
    elif rest == line[end:]:
        return None  # a name that runs into something else
    words = _WORD.findall(line[end:].split(" # ", maxsplit=1)[0])
    return (line[:end], name[0], labels, words[0]) if labels is not None and len(words) in (1, 2) else None


def _labels(line: str, start: int) -> tuple[dict[str, str] | None, int]:
    """Labels from `start` (after the brace) and the position behind the closing brace; None when malformed."""
    labels: dict[str, str] = {}
    position = start
    while (end := _END.match(line, position)) is None:
        label = _LABEL.match(line, position)
        if label is None or len(label[2]) > MAX_LABEL_BYTES:
            return None, position
        labels[label[1]] = _ESCAPE.sub(_unescaped, label[2]) if "\\" in label[2] else label[2]
        position = label.end()
    return labels, end.end()


def _unescaped(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1] if escape[1] in '\\"' else escape[0]
