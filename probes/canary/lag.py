"""How late this process's event loop runs: the client's own share in every time stamp."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

HEARTBEAT_REAL_SECONDS: Final = 0.002  # 500 wake-ups/s, only while a probe runs


@dataclass(slots=True)
class LagMonitor:
    """A heartbeat on the loop that times the probes, kept only while somebody watches. Real seconds throughout.

    A beat that comes late by x means that the loop was away for x: a byte may have waited as long to be stamped.
    """

    _watches: set["LagWatch"] = field(default_factory=set)
    _beat: asyncio.TimerHandle | None = None
    _due_at: float = 0.0

    def watch(self) -> "LagWatch":
        """Begin to watch; give the watch back with `LagWatch.stop`."""
        watch = LagWatch(self)
        self._watches.add(watch)
        if self._beat is None:
            self._schedule()
        return watch

    def forget(self, watch: "LagWatch") -> None:
        """No more beats for this watch; the last one out stops the heart."""
        self._watches.discard(watch)
        if not self._watches and self._beat is not None:
            self._beat.cancel()
            self._beat = None

    def overdue_seconds(self) -> float:
        """How late the beat that has not come yet is by now: the lag that is still going on."""
        return max(0.0, asyncio.get_running_loop().time() - self._due_at) if self._beat else 0.0

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._due_at = loop.time() + HEARTBEAT_REAL_SECONDS
        self._beat = loop.call_at(self._due_at, self._on_beat)

    def _on_beat(self) -> None:
        late_seconds = self.overdue_seconds()
        for watch in self._watches:
            watch.note(late_seconds)
        self._schedule()


@dataclass(slots=True, eq=False)
class LagWatch:
    """The largest lag since it began, real seconds."""

    monitor: LagMonitor
    _max_seconds: float = 0.0

    def note(self, late_seconds: float) -> None:
        """One beat was so late."""
        self._max_seconds = max(self._max_seconds, late_seconds)

    def restart(self) -> None:
        """Forget what was seen so far: the part that counts begins now."""
        self._max_seconds = 0.0

    def stop(self) -> float:
        """The largest lag seen, the one going on included."""
        self.note(self.monitor.overdue_seconds())
        self.monitor.forget(self)
        return self._max_seconds
