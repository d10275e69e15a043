"""How late this process's event loop runs: the client's own share in every time stamp."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final

HEARTBEAT_REAL_SECONDS: Final = 0.002  # 500 wake-ups/s, only while a probe runs
# A stamp made so soon after a beat may be of a byte that waited together with it; later ones came after it.
_BURST_REAL_SECONDS: Final = 0.001


@dataclass(slots=True)
class LagMonitor:
    """A heartbeat on the loop that times the probes, kept only while somebody watches. Real seconds throughout.

    A beat that comes late by x means that the loop, or the whole process, was away for x: a byte that came meanwhile
    waited as long for its stamp. A stamp is told by the beats beside it; lag at another time did not move it.
    `read_until_ns` (unix) is a time until which whatever came has been read: 0 as long as none is known.
    """

    read_until_ns: int = 0

    _watchers: int = 0
    _beat: asyncio.TimerHandle | None = None
    _due_at: float = 0.0
    _last_due_at: float = 0.0
    _last_ran_at: float = 0.0
    _last_ran_at_ns: int = 0

    def start(self) -> None:
        """Begin to watch; ends with as many calls of `stop`."""
        self._watchers += 1
        if self._beat is None:
            self._schedule()

    def stop(self) -> None:
        """No more beats for this watcher; the last one out stops the heart."""
        self._watchers -= 1
        if self._watchers == 0 and self._beat is not None:
            self._beat.cancel()
            self._beat = None
            self.read_until_ns = self._last_ran_at_ns = 0

    def lag_seconds(self) -> float:
        """How late a stamp made now may be: as the beat just before it was, or as the next one already is."""
        if self._beat is None:
            return 0.0
        now = asyncio.get_running_loop().time()
        late = now - self._last_due_at if now - self._last_ran_at < _BURST_REAL_SECONDS else 0.0
        return max(late, now - self._due_at, 0.0)

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._due_at = loop.time() + HEARTBEAT_REAL_SECONDS
        self._beat = loop.call_at(self._due_at, self._on_beat)

    def _on_beat(self) -> None:
        # A beat comes after the reads of its turn of the loop, which looked for them after the beat before this one.
        self.read_until_ns, self._last_ran_at_ns = self._last_ran_at_ns, time.time_ns()
        self._last_due_at, self._last_ran_at = self._due_at, asyncio.get_running_loop().time()
        self._schedule()
