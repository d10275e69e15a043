"""Alerts and recommendations as JSON lines, appended to a file."""

import json
import logging
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from agent.model import Effects
from agent.outputs.jsonable import alert_json, recommendation_json

MAX_WAITING_LINES = 1000
"""Lines kept while the file cannot be written; older ones are dropped, and that is told."""

log = logging.getLogger(__name__)


def effect_lines(effects: Effects) -> Iterator[str]:
    """One line per alert that began or ended, then one per recommendation that is new or got its verdict.

    `kind` ("alert" or "recommendation") stands before the keys of the JSON shape; an alert also tells the tick's `at`.
    """
    for alert in effects.changed_alerts:
        yield _line({"kind": "alert", "at": effects.snapshot.at_seconds, **alert_json(alert)})
    for recommendation in effects.changed_recommendations:
        yield _line({"kind": "recommendation", **recommendation_json(recommendation)})


class JsonlOutput:
    """Appends to `path`, opened for every write so that it may be rotated away. `delivered` hears of every write."""

    def __init__(self, path: Path, delivered: Callable[[str, str], None] = lambda _output, _outcome: None) -> None:
        self._path = path
        self._delivered = delivered
        self._waiting: deque[str] = deque(maxlen=MAX_WAITING_LINES)
        self._is_writable = True

    def write(self, effects: Effects) -> None:
        """Append what changed; what cannot be written is tried again with the next write. Never raises."""
        for line in effect_lines(effects):
            if len(self._waiting) == MAX_WAITING_LINES:
                self._delivered("jsonl", "dropped")
            self._waiting.append(line)
        if not self._waiting:
            return
        try:
            self._append("".join(self._waiting))
        except OSError as error:
            self._delivered("jsonl", "failed")
            if self._is_writable:
                log.warning("jsonl not written path=%s reason=%s", self._path, error.strerror)
            self._is_writable = False
            return
        self._delivered("jsonl", "ok")
        if not self._is_writable:
            log.info("jsonl written again path=%s", self._path)
        self._is_writable = True
        self._waiting.clear()

    def _append(self, text: str) -> None:
        """A line that a crash cut short gets its end first, so that it spoils no other."""
        with self._path.open("ab+", buffering=0) as file:
            size = file.seek(0, 2)
            if size:
                file.seek(size - 1)
                text = text if file.read(1) == b"\n" else f"\n{text}"
            file.write(text.encode())


def _line(value: dict[str, object]) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":")) + "\n"
