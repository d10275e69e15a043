"""When what was read came, on the clock of the canary, and how far off that may be."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from probes.canary.arrival import Arrivals
from probes.canary.lag import LagMonitor
from probes.clock import Clock

# Server's send to our stamp on a quiet loopback, measured: 0.28 ms at p50. Below it no figure can be told.
QUIET_ERROR_REAL_SECONDS: Final = 0.0003
# An age beyond this, or below zero, is a wall clock that was set meanwhile: kernel stamps are its time.
LONGEST_AGE_REAL_NS: Final = 10_000_000_000
_LOOKS: Final = 3  # two clocks are read one after the other; who is held up between them looks again


@dataclass(slots=True)
class Stamper:
    """Stamps the pieces of one answer, and keeps the largest error of a stamp, in real seconds.

    By the kernel where it says when they came; else now, and then the lag of the loop is the error.
    """

    clock: Clock
    lag: LagMonitor
    arrivals: Arrivals
    error_real_seconds: float = 0.0
    _at_seconds: float = 0.0
    _stamped_at_ns: int | None = None
    _shared_error_real_seconds: float = 0.0

    def stamp(self) -> float:
        """When the last bytes of the piece that was just read came. What has one stamp of the kernel has one of ours,
        even while the wall clock is set.
        """
        after_ns, stamped_at_ns = self.arrivals.take_after_ns(), self.arrivals.stamped_at_ns
        if stamped_at_ns is not None and stamped_at_ns == self._stamped_at_ns:
            return self._at_seconds
        self._stamped_at_ns = stamped_at_ns
        if stamped_at_ns is None or not 0 <= time.time_ns() - stamped_at_ns <= LONGEST_AGE_REAL_NS:
            self._at_seconds, error = self.clock.monotonic_seconds(), self.lag.lag_seconds() + QUIET_ERROR_REAL_SECONDS
            self._shared_error_real_seconds = error
        else:
            self._at_seconds, error = on_clock(self.clock, stamped_at_ns, time.time_ns)
            self._shared_error_real_seconds = max(0, stamped_at_ns - after_ns) / 1e9
        self._has_error_of(error)
        return self._at_seconds

    def share(self) -> None:
        """More came under the last stamp than what it is the stamp of: that may have come sooner, but not before the
        socket was last seen empty.
        """
        self._has_error_of(self._shared_error_real_seconds)

    def _has_error_of(self, real_seconds: float) -> None:
        self.error_real_seconds = max(self.error_real_seconds, real_seconds)


def on_clock(clock: Clock, at_ns: int, now_ns: Callable[[], int]) -> tuple[float, float]:
    """A moment by another clock, of which `now_ns` is the time, on this clock's monotonic axis: (seconds, real seconds
    that they may be off).
    """
    before, then_ns, after = min((_look(clock, now_ns) for _ in range(_LOOKS)), key=lambda look: look[2] - look[0])
    age = (then_ns - at_ns) / 1e9 / clock.real_seconds(1.0)
    return (before + after) / 2 - age, clock.real_seconds(after - before) / 2


def _look(clock: Clock, now_ns: Callable[[], int]) -> tuple[float, int, float]:
    return clock.monotonic_seconds(), now_ns(), clock.monotonic_seconds()
