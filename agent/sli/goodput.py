"""Goodput of an engine, request by request as far as two histograms can tell: TTFT kept *and* TPOT kept.

A request is counted once: as bad when its first token is late, else when it ends. Of those that end too slowly, as many
as were charged before and are still inside may be the very same: they are undecided, and so are as many as failed. So
over any stretch the bad ones are at least those late by one of the two, at most their sum (Frechet's bounds), and all
are as many as ended. Of the ends that come after a charge, one each is left out.
"""

from dataclasses import dataclass

from agent.model import Counts
from agent.sli.pending import Ended, Inside, PendingRequests


@dataclass(slots=True)
class JointRequests:
    """The balance of one engine for one pair of thresholds. `first` is that of requests without a first token."""

    first: PendingRequests
    _charged: float = 0.0  # at most so many of those inside were counted as bad at their first token
    _uncleared: float = 0.0  # so many ends are still to be left out
    _owed: float = 0.0  # so many ends may have been bad, and had no place yet: another's end was left out instead

    def observe(
        self,
        at_seconds: float,
        first: Ended,
        pace: Counts,
        failed: float,
        inside: Inside | None,
        *,
        restarted: bool,
    ) -> Counts:
        """What one reading adds: `first` tokens by TTFT, ends by TPOT (`pace`), of which `failed` may have failed."""
        if restarted:
            self._charged = self._uncleared = self._owed = 0.0
        late = self.first.observe(at_seconds, first, inside, restarted=restarted)
        self._charged += late.bad
        self._uncleared += late.bad
        same = min(pace.bad, self._charged)
        maybe = self._owed + same + pace.undecided + late.undecided + failed
        left_out = min(self._uncleared, pace.total)
        self._uncleared -= left_out
        places = pace.total - left_out
        bad = min(pace.bad - same, places)
        maybe += pace.bad - same - bad
        undecided = min(maybe, places - bad)
        self._owed = maybe - undecided
        if inside is not None:
            self._charged, self._owed = min(self._charged, inside.total), min(self._owed, inside.total)
            self._uncleared = min(self._uncleared, inside.total)
        return Counts(places - bad - undecided, late.bad + bad, undecided)
