"""The state file: named rows in one SQLite database, each with its checksum; a save is there whole or not at all.

SQLite in WAL mode with synchronous=NORMAL: a killed process loses nothing that was saved, a power cut at most the last
saves, and neither damages the file (https://www.sqlite.org/wal.html). One agent at a time holds it.
"""

import sqlite3
import threading
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from agent.errors import StateError

SCHEMA: Final = 2
BUSY_SECONDS: Final = 5.0  # so long a file that another process writes is waited for
MIGRATIONS: Mapping[int, str] = {  # to this schema from the one before
    1: "CREATE TABLE parts (name TEXT NOT NULL, place INTEGER NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL, "
    "PRIMARY KEY (name, place)) WITHOUT ROWID",
    2: "DELETE FROM parts WHERE name LIKE 'advice/%'",  # new rows, which an older agent would leave to grow old
}
Row = tuple[str, int, bytes]


class StateLostError(Exception):
    """The file is there and cannot be believed; its text says why."""


class StateFile:
    """The rows of one file. Use it from one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Opens it, and makes it where it is not there.

        Raises StateError where that cannot be, where another agent holds it and where a newer one wrote it;
        StateLostError where it is damaged.
        """
        self.path = path
        if path.is_file() and path.stat().st_size == 0 and not path.with_name(path.name + "-wal").exists():
            raise StateLostError("the file is empty")
        self._saving = threading.Lock()  # a save whose caller was cancelled goes on to its end
        try:
            self._database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise StateError(path, str(error), "The folder must be there and be writable.") from None
        try:
            self._prepare()
        except BaseException:
            self._database.close()
            raise

    def rows(self) -> list[Row]:
        """Everything saved; nothing in a new file. Raises StateLostError where a row is not what was written."""
        try:
            found = self._database.execute("SELECT name, place, body, crc FROM parts").fetchall()
        except sqlite3.DatabaseError as error:
            raise StateLostError(str(error)) from None
        for name, place, body, crc in found:
            if zlib.crc32(body) != crc:
                raise StateLostError(f"the checksum of {name}[{place}] is wrong")
        return [(name, place, body) for name, place, body, _ in found]

    def save(self, deleted: Iterable[str] | None, rows: Iterable[Row]) -> None:
        """Delete all rows of these names (None: every row), then write these; all of it or nothing.

        Raises sqlite3.Error.
        """
        with self._saving, self._database:
            self._database.execute("BEGIN IMMEDIATE")
            if deleted is None:
                self._database.execute("DELETE FROM parts")
            else:
                self._database.executemany("DELETE FROM parts WHERE name = ?", ((name,) for name in deleted))
            self._database.executemany(
                "INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?)",
                ((name, place, body, zlib.crc32(body)) for name, place, body in rows),
            )

    def close(self) -> None:
        """Give the file back."""
        self._database.close()

    def _prepare(self) -> None:
        try:
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.execute("BEGIN IMMEDIATE")  # an exclusive lock, and for good: see locking_mode
            self._migrate()
            self._database.execute("COMMIT")
            (said,) = self._database.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            raise StateError(self.path, str(error), _mend(error)) from None
        except sqlite3.DatabaseError as error:
            raise StateLostError(str(error)) from None
        if said != "ok":
            raise StateLostError(said)

    def _migrate(self) -> None:
        (schema,) = self._database.execute("PRAGMA user_version").fetchone()
        if schema > SCHEMA:
            raise StateError(
                self.path,
                f"a newer slo-agent wrote it (schema {schema}; this one knows {SCHEMA})",
                "Start that version, or move the file away: budgets then begin anew.",
            )
        for step in range(schema + 1, SCHEMA + 1):
            self._database.execute(MIGRATIONS[step])
        self._database.execute(f"PRAGMA user_version = {SCHEMA:d}")


def _mend(error: sqlite3.Error) -> str:
    """What helps against this very error of SQLite's."""
    code = error.sqlite_errorcode & 0xFF  # the extended codes have theirs in the upper bytes
    if code == sqlite3.SQLITE_FULL:
        return "The disk is full: free some space, or set state.path to a file on another disk."
    if code == sqlite3.SQLITE_IOERR:
        return "The disk does not take it: it may be full or broken, or a quota spent."
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN):
        return "The file and its folder must be writable for the user that the agent runs as."
    return "Another agent may hold it: give each its own state.path."


def move_aside(path: Path, at_seconds: float) -> Path:
    """Take a damaged file, and what SQLite keeps beside it, out of the way; returns where it is now."""
    aside = path.with_name(f"{path.name}.damaged-{at_seconds:.0f}")
    for suffix in ("-wal", "-shm", ""):
        beside = path.with_name(path.name + suffix)
        if beside.exists():
            beside.replace(aside.with_name(aside.name + suffix))
    return aside
