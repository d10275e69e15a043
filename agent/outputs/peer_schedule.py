"""When one Alertmanager has to be told which alerts. No clock and no I/O; times are monotonic seconds."""

from collections.abc import Iterable

from agent.outputs.alert_lease import HeldAlert, Labels

Version = tuple[float, float | None]


class PeerSchedule:
    """All alerts go out every `resend_seconds`; one that began or ended goes out at once.

    After a failure the next try comes after a quarter of `resend_seconds`. What the peer refused is not sent again
    until it changes.
    """

    def __init__(self, resend_seconds: float) -> None:
        self._resend_seconds = resend_seconds
        self._told: dict[Labels, Version] = {}
        self._refused: dict[Labels, Version] = {}
        self._all_at_seconds = 0.0
        self._not_before_seconds = 0.0

    def is_all_due(self, monotonic_seconds: float) -> bool:
        """Whether the next post renews every alert."""
        return monotonic_seconds >= max(self._all_at_seconds, self._not_before_seconds)

    def due(self, held: list[HeldAlert], monotonic_seconds: float) -> list[HeldAlert]:
        """What to post now; empty when there is nothing to say yet."""
        if monotonic_seconds < self._not_before_seconds:
            return []
        wanted = [one for one in held if self._refused.get(one.labels) != one.version]
        if self.is_all_due(monotonic_seconds):
            return wanted
        return [one for one in wanted if self._told.get(one.labels) != one.version]

    def wait_seconds(self, monotonic_seconds: float) -> float:
        """How long until the next planned post, when no alert changes before."""
        return max(0.0, max(self._all_at_seconds, self._not_before_seconds) - monotonic_seconds)

    def accepted(self, posted: Iterable[HeldAlert]) -> None:
        """The peer has taken these."""
        for one in posted:
            self._told[one.labels] = one.version
            self._refused.pop(one.labels, None)

    def refused(self, one: HeldAlert) -> None:
        """The peer called this very alert invalid."""
        self._refused[one.labels] = one.version

    def finished(self, held: list[HeldAlert], monotonic_seconds: float, *, was_all: bool) -> None:
        """A round went well. Forgets what is no longer held."""
        if was_all:
            self._all_at_seconds = monotonic_seconds + self._resend_seconds
        kept = {one.labels for one in held}
        self._told = {labels: version for labels, version in self._told.items() if labels in kept}
        self._refused = {labels: version for labels, version in self._refused.items() if labels in kept}

    def failed(self, monotonic_seconds: float) -> None:
        """The peer did not take the round; everything is due again, a little later."""
        self._all_at_seconds = 0.0
        self._not_before_seconds = monotonic_seconds + self._resend_seconds / 4

    def again(self) -> None:
        """Everything is due at once: the stamps that were sent are of no use to the peer."""
        self._all_at_seconds = self._not_before_seconds = 0.0
