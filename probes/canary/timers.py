"""The timers of one request: one deadline at a time, each with the outcome class it stands for."""

import asyncio
from dataclasses import dataclass

from probes.clock import Clock


@dataclass(slots=True)
class Timers:
    """Moves one asyncio deadline from stage to stage, never past the total. Limits are seconds of the injected clock.

    What resets a timer is a stage begun (a connection, a head, a token), never bytes: keep-alives prove nothing.
    """

    scope: asyncio.Timeout
    clock: Clock
    ends_at_loop_seconds: float
    outcome: str = "total_timeout"

    def begin(self, outcome: str, limit_seconds: float) -> None:
        """From now on, no end of this stage within the limit means `outcome`."""
        due = asyncio.get_running_loop().time() + self.clock.real_seconds(limit_seconds)
        self._set(outcome, due)

    def rename(self, outcome: str) -> None:
        """The same deadline, but it would now mean another outcome (TCP is up, TLS is not)."""
        if self.outcome != "total_timeout":
            self.outcome = outcome

    def _set(self, outcome: str, due: float) -> None:
        is_within_total = due < self.ends_at_loop_seconds
        self.outcome = outcome if is_within_total else "total_timeout"
        if not self.scope.expired():
            self.scope.reschedule(min(due, self.ends_at_loop_seconds))
