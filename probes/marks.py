"""The names on a page, and the labels of an info series: what tells versions apart."""

import re
from collections.abc import Sequence

_LABELS = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="(?:[^"\\]|\\.)*+"')
MAX_MARKS = 20_000  # a page has some hundreds of names


def page_marks(text: str, prefixes: Sequence[str], info: str) -> frozenset[str]:
    """Every name on the page that has one of the prefixes, without it; `info{label}` for each label of that series."""
    marks: set[str] = set()
    for line in text.split("\n"):
        name = line.partition("{")[0].partition(" ")[0]
        prefix = next((p for p in prefixes if name.startswith(p)), None)
        if prefix is None or len(marks) > MAX_MARKS:
            continue
        bare = name[len(prefix) :]
        marks.add(bare)
        if bare == info:
            marks.update(f"{info}{{{label}}}" for label in _LABELS.findall(line[:65_536]))
    return frozenset(marks)
