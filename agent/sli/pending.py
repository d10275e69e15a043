"""Requests that have not ended: counted when they become late, not when they end, and never lost.

vLLM has no counter of arrivals. What is known at each reading: how many ended since the last one (e) and how many are
in flight (p). So at least max(0, e + p - p_before) arrived, and what is missing from the balance gave up.
"""

from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Late:
    """What one reading changed: requests newly over their deadline, late ones that are gone, and ones that gave up.

    `lost` were in flight when the process died: they got no answer.
    """

    newly_late: float = 0.0
    resolved: float = 0.0
    gave_up: float = 0.0
    lost: float = 0.0


@dataclass(slots=True)
class PendingRequests:
    """The balance of one engine for one deadline. All counts are lower bounds: what cannot be told is not claimed."""

    deadline_seconds: float
    _arrivals: deque[tuple[float, float]] = field(default_factory=deque)
    _arrived: float = 0.0
    _ended: float = 0.0
    _gave_up: float = 0.0
    _in_flight: float = 0.0
    _charged: float = 0.0

    def observe(self, at_seconds: float, ended: float, in_flight: float, *, restarted: bool) -> Late:
        """One reading: `ended` requests since the last, `in_flight` now."""
        lost = resolved = 0.0
        if restarted:
            lost, resolved = max(0.0, self._in_flight - self._charged), self._charged
            self._arrivals.clear()
            self._arrived = self._ended = self._gave_up = self._in_flight = self._charged = 0.0
        balance = ended + in_flight - self._in_flight
        self._arrived += max(0.0, balance)
        self._gave_up += max(0.0, -balance)
        self._ended += ended
        self._in_flight = in_flight
        self._arrivals.append((at_seconds, self._arrived))
        late = min(
            max(0.0, self._arrived_by(at_seconds - self.deadline_seconds) - self._ended - self._gave_up), in_flight
        )
        newly_late, resolved = max(0.0, late - self._charged), resolved + max(0.0, self._charged - late)
        self._charged = late
        return Late(newly_late, resolved, max(0.0, -balance), lost)

    def _arrived_by(self, at_seconds: float) -> float:
        """Arrivals up to the last reading at or before `at_seconds`; older readings are dropped."""
        while len(self._arrivals) > 1 and self._arrivals[1][0] <= at_seconds:
            self._arrivals.popleft()
        first_at, arrived = self._arrivals[0]
        return arrived if first_at <= at_seconds else 0.0
