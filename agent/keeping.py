"""Keeping the memory across restarts: restored at the start; saved again and again, when alerts change, at the end."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

from agent.config import State
from agent.plan import Plan
from agent.state import StateFile, StateLostError, move_aside
from agent.state_forms import SavedMemory
from agent.tick import Memory, take_in

log = logging.getLogger(__name__)


class Keeper:
    """One agent's state file; without one nothing is kept. `saved` hears ("state", "ok" or "failed") of every save."""

    def __init__(
        self, config: State | None, saved: Callable[[str, str], None] = lambda _output, _outcome: None
    ) -> None:
        self.save_seconds = config.save_seconds if config else None
        self._path = config.path if config else None
        self._saved = saved
        self._known = SavedMemory()
        self._file: StateFile | None = None
        self._must_write_all = False
        self._trouble = ""
        self._writing = asyncio.Lock()

    def open(self, plan: Plan, now_seconds: float) -> Memory:
        """What was kept of what is still planned, or a new memory.

        A damaged file is moved aside, and the memory says that one was lost.
        Raises StateError where the file cannot be used: another agent holds it, or a newer one wrote it.
        """
        if self._path is None:
            return Memory()
        try:
            self._file = StateFile(self._path)
            rows = self._file.rows()
            if not rows:
                log.info("state begins path=%s", self._path)
                return Memory()
            memory, saved_at = self._known.restored(rows, now_seconds)
        except (StateLostError, ValueError, LookupError, TypeError, AttributeError) as error:
            return self._begin_anew(self._path, str(error), now_seconds)
        logs = memory.windows.targets.items()
        for name in [name for name, last in logs if last.source != "nvml" and name not in plan.targets]:
            memory.windows.forget(name)
        log.info(
            "state restored path=%s away_seconds=%.1f alerts_firing=%d: engines' events of that time are counted at "
            "their next page, spread over it; lost are canaries of that time, and the last events of an engine that "
            "restarted in it",
            self._path, now_seconds - saved_at, len(memory.alerts.firing),
        )  # fmt: skip
        return memory

    async def save(self, memory: Memory, plan: Plan, now_seconds: float) -> None:
        """Write what changed. What cannot be written is told once, and tried again the next time."""
        async with self._writing:
            if self._file is None:
                return
            take_in(plan, memory, now_seconds, holds_back=False)  # raw counters and what was made of them agree
            everything, self._must_write_all = self._must_write_all, True  # until this one is known to be written
            deleted, rows = self._known.changes(memory, now_seconds, everything=everything)
            try:
                await asyncio.to_thread(self._file.save, deleted, rows)
            except sqlite3.Error as error:
                self._fail(str(error))
                return
            self._must_write_all = False
        if self._trouble:
            log.info("state is saved again path=%s", self._path)
        self._trouble = ""
        self._saved("state", "ok")

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin_anew(self, path: Path, reason: str, now_seconds: float) -> Memory:
        self.close()
        aside = move_aside(path, now_seconds)
        log.error("state lost path=%s reason=%r moved_to=%s", path, reason, aside)
        self._file = StateFile(path)
        self._known = SavedMemory()
        return Memory(lost_at_seconds=now_seconds)

    def _fail(self, reason: str) -> None:
        if reason != self._trouble:
            log.error("state not saved path=%s reason=%r", self._path, reason)
        self._trouble = reason
        self._saved("state", "failed")
