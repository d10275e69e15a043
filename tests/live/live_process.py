"""Real servers as processes of ours, each in a session of its own, with its output in a file; and waiting for them."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")
SHOWN_CHARACTERS = 3000


def until(what: str, seconds: float, look: Callable[[], Found | None]) -> Found:
    """What `look` returns as soon as it is true; an OSError (nobody answers yet) counts as not yet.

    `seconds` is a generous limit for a busy machine, not a promise. Raises AssertionError after it.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = None
        with contextlib.suppress(OSError):
            found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}; last seen: {found!r}"
        time.sleep(0.25)


@dataclass(slots=True)
class Server:
    """A program that runs until it is stopped. `log` gets all that it prints; `environment` comes on top of ours."""

    command: Sequence[str | Path]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> "Server":
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*map(str, self.command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
            )
        return self

    def start_until(self, what: str, seconds: float, look: Callable[[], object]) -> "Server":
        """Start it and wait for it; one that does not get there is killed."""
        self.start()
        try:
            self.until(what, seconds, look)
        except BaseException:
            self.kill()
            raise
        return self

    def until(self, what: str, seconds: float, look: Callable[[], object]) -> None:
        """As the function `until`; one that ends meanwhile, or does not get there, is told with its last words."""

        def alive_and_true() -> object:
            assert self.exit_code() is None, f"{self.command[0]} ended while we waited: {what}"
            return look()

        try:
            until(what, seconds, alive_and_true)
        except AssertionError as error:
            error.add_note(self.said())
            raise

    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def said(self) -> str:
        """The end of its output."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return text[-SHOWN_CHARACTERS:]

    def interrupt(self, seconds: float = 60.0) -> int:
        """Ctrl-C; its exit code."""
        assert self._process is not None, "not started"
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(seconds)

    def stop(self, seconds: float = 30.0) -> None:
        """Ask it to end, and see that nothing of it is left. Harmless when it has ended already."""
        if self._process is None:
            return
        family = [self.pid, *descendants(self.pid)]
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self._end(family)

    def kill(self) -> None:
        """kill -9 of the program and of all that it has started."""
        self._end([self.pid, *descendants(self.pid)])

    def _end(self, family: Sequence[int]) -> None:
        assert self._process is not None, "not started"
        for pid in family:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(30)
        until("its processes are gone", 30, lambda: not any(map(is_alive, family)))


def descendants(pid: int) -> list[int]:
    """The processes that `pid` has started, and theirs."""
    children = [int(child) for child in Path("/proc").glob("[0-9]*") if _parent(child) == pid for child in [child.name]]
    return [*children, *(further for child in children for further in descendants(child))]


def is_alive(pid: int) -> bool:
    """False for a zombie too: it has ended, and only waits for its parent to notice."""
    return _stat(Path("/proc") / str(pid))[:1] not in ([], ["Z"])


def command_line(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def _parent(process: Path) -> int | None:
    stat = _stat(process)
    return int(stat[1]) if stat else None


def _stat(process: Path) -> list[str]:
    """State, parent and so on of proc(5); empty for a process that is gone."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
