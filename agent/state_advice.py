"""What advice has learned, as rows of the state file and back.

It can be learned again, so it is kept apart from counts: rows that are none of ours lose it alone.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from agent.advice.advisor import Advisor, GroupMemory, Named
from agent.advice.capacity_book import Kind, Learned
from agent.advice.forecast import CHUNK_BINS, KEPT_BINS
from agent.windows import Windows

PREFIX = "advice/"
NAMES = TARGETS, GROUPS, ENGINES, RATES = "advice/targets", "advice/groups", "advice/engines", "advice/rates"
RING = KEPT_BINS // CHUNK_BINS + 2  # rows of one group's rates; a new chunk takes the place of one that is forgotten
Row = tuple[str, int, bytes]  # name, place, body
log = logging.getLogger(__name__)


class SavedAdvice:
    """Tells the rows that changed since they were last told."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, int], int] = {}  # hashes
        self._chunks: dict[Named, int] = {}  # the newest that was told, which may not have been full

    def changes(
        self, advisor: Advisor, windows: Windows, now_seconds: float, *, everything: bool
    ) -> tuple[list[str], list[Row]]:
        """Names whose rows are to be deleted first, and the rows to write: all of them the first time, too."""
        if everything:
            self._told, self._chunks = {}, {}
        deleted, rows = [] if self._told else list(NAMES), []
        for name, place, form in self._forms(advisor, windows, now_seconds):
            body = json.dumps(form, separators=(",", ":")).encode()
            if self._told.get((name, place)) != hash(body):
                self._told[name, place] = hash(body)
                rows.append((name, place, body))
        return deleted, rows

    def _forms(self, advisor: Advisor, windows: Windows, now_seconds: float) -> Iterator[tuple[str, int, object]]:
        yield TARGETS, 0, advisor.outline(windows, now_seconds)
        for place, (kind, learned) in enumerate(advisor.capacity.learned.items()):
            yield ENGINES, place, {"kind": kind, **learned.outline()}
        for place, (group, memory) in enumerate(advisor.groups.items()):
            yield GROUPS, place, {"group": group, **memory.outline()}
            for number, rates in memory.forecaster.chunks(self._chunks.get(group, 0)):
                self._chunks[group] = number
                yield RATES, place * RING + number % RING, {"group": group, "chunk": number, "rates": rates}


def restored_advisor(rows: Iterable[Row]) -> Advisor:
    """The advisor that these rows of `SavedAdvice` tell of; a new one where there are none, or where they are none of
    ours: that is told in the log. Never raises.
    """
    try:
        return _advisor(rows)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        log.warning("advice begins anew reason=%r: capacity and forecast are learned again", str(error))
        return Advisor()


def _advisor(rows: Iterable[Row]) -> Advisor:
    forms: dict[str, list[Any]] = defaultdict(list)
    for name, _, body in sorted(rows):
        forms[name].append(json.loads(body))
    if not forms:
        return Advisor()
    chunks: dict[Named, dict[int, list[float]]] = defaultdict(dict)
    for form in forms[RATES]:
        chunks[_named(form)][int(form["chunk"])] = form["rates"]
    learned = {Kind(*form["kind"]): Learned.restored(form) for form in forms[ENGINES]}
    groups = {_named(form): GroupMemory.restored(form, chunks[_named(form)]) for form in forms[GROUPS]}
    return Advisor.restored(forms[TARGETS][0], learned, groups)


def _named(form: Any) -> Named:
    model, role = form["group"]
    return str(model), str(role)
