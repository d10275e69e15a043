"""Requests that have not ended: counted when they become late, not when they end, once, and never lost.

vLLM has no counter of arrivals. What is known at each reading: how many ended since the last one (e) and how many are
in flight (p). So at least max(0, e + p - p_before) arrived, and what is missing from the balance gave up. Of those
that had arrived a deadline ago, whatever has neither ended nor given up is late. A client that hangs up within the
same reading in which another arrives cannot be told apart from the one that came: vLLM's page shows neither.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.model import Counts


class Ended(NamedTuple):
    """Requests that ended between two readings, by what their end says.

    `bad` ones ended too late, or failed; `undecided` ones may have been late; `in_time` ones were not; `answered` ones
    are good unless they were charged as late before. `refused` ones never were in flight.
    """

    in_time: float = 0.0
    answered: float = 0.0
    bad: float = 0.0
    undecided: float = 0.0
    refused: float = 0.0


class Inside(NamedTuple):
    """Requests in an engine at one reading: `pending` ones have not reached the end that is waited for, of `total`.

    `preempted` ones since the last reading went back to the queue, and may have had their first token before.
    """

    pending: float
    total: float
    preempted: float = 0.0


@dataclass(slots=True)
class PendingRequests:
    """The balance of one engine for one deadline. Late ones are a lower bound: what cannot be told is not claimed."""

    deadline_seconds: float
    _arrivals: deque[tuple[float, float]] = field(default_factory=deque)
    _arrived: float = 0.0
    _gone: float = 0.0  # ended or gave up
    _in_flight: float = 0.0
    _preempted: float = 0.0  # at most so many of those that seem to wait have waited before
    _charged: float = 0.0  # at most so many of those in the engine were counted as bad already
    _uncleared: float = 0.0  # charged ones whose end, if it looks like an answer, is still to be left out
    _unread: float = 0.0  # ends of readings that did not say how many are in flight

    def observe(self, at_seconds: float, ended: Ended, inside: Inside | None, *, restarted: bool) -> Counts:
        """What one reading adds: `ended` since the last, `inside` now, None where the page does not say.

        Requests in flight when the process died got no answer: they are bad.
        """
        lost = self._begin_anew() if restarted else 0.0
        in_time, answered, bad, undecided, refused = ended
        left = in_time + answered + bad + undecided  # how many of them were in flight before
        late = self._late(at_seconds, left, inside)
        newly = bad + late - self._charged if bad + late > self._charged else 0.0
        if newly or bad or self._uncleared:
            self._charged += newly - bad
            self._uncleared = max(0.0, self._uncleared + newly - bad)
            undecided, answered = self._clear(undecided), self._clear(answered)
        if inside is not None and self._charged > inside.total:
            self._charged = inside.total
        return Counts(in_time + answered, newly + lost + refused, undecided)

    def _begin_anew(self) -> float:
        """With a new process; returns how many were in flight in the old one and not counted yet."""
        lost = max(0.0, self._in_flight - self._charged)
        self._arrivals.clear()
        self._arrived = self._gone = self._in_flight = self._preempted = self._charged = self._uncleared = 0.0
        self._unread = 0.0
        return lost

    def _late(self, at_seconds: float, left: float, inside: Inside | None) -> float:
        """How many of the pending requests are late for certain; `left` ended since the last reading."""
        if inside is None:
            self._unread += left
            return 0.0
        if self._preempted or inside.preempted:
            self._preempted = min(self._preempted + inside.preempted, inside.pending)
        in_flight = inside.pending - self._preempted
        left, self._unread = self._unread + left, 0.0
        balance = left + in_flight - self._in_flight
        if balance > 0:
            self._arrived += balance
            self._gone += left
        else:
            self._gone += left - balance
        self._in_flight = in_flight
        if self._arrivals and at_seconds < self._arrivals[-1][0]:
            self._set_back(self._arrivals[-1][0] - at_seconds)
        self._arrivals.append((at_seconds, self._arrived))
        late = self._arrived_by(at_seconds - self.deadline_seconds) - self._gone
        return min(late, in_flight) if late > 0 else 0.0

    def _set_back(self, seconds: float) -> None:
        """The clock was: who is inside has waited as long as before."""
        self._arrivals = deque((at - seconds, arrived) for at, arrived in self._arrivals)

    def _clear(self, ends: float) -> float:
        """These ends without the ones that were charged as late while they were pending."""
        if not self._uncleared:
            return ends
        known = min(ends, self._uncleared)
        self._uncleared -= known
        return ends - known

    def _arrived_by(self, at_seconds: float) -> float:
        """Arrivals up to the last reading at or before `at_seconds`; older readings are dropped."""
        while len(self._arrivals) > 1 and self._arrivals[1][0] <= at_seconds:
            self._arrivals.popleft()
        first_at, arrived = self._arrivals[0]
        return arrived if first_at <= at_seconds else 0.0
