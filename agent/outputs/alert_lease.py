"""What every Alertmanager must be told: firing alerts as leases that are renewed, resolved ones for a while.

No clock and no I/O: the machine's time comes in as an `Instant`. Stamps of alerts are of the wall clock, everything
that is waited for goes by the monotonic one, so that a wall clock that jumps ends no lease.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from agent.model import Alert

Labels = tuple[tuple[str, str], ...]

RESOLVED_RESEND_SECONDS = 900.0
"""How long a resolved alert is repeated. Source: Prometheus, rules/alerting.go, resolvedRetention = 15 minutes."""

LEASE_RESENDS = 4.0
"""A lease lasts four resends, so that three lost posts end none. Source: Prometheus, rules/manager.go, sendAlerts."""


@dataclass(frozen=True, slots=True)
class Instant:
    """The machine's time: unix seconds for stamps, seconds that never go backwards for waiting."""

    wall_seconds: float
    monotonic_seconds: float


@dataclass(frozen=True, slots=True)
class HeldAlert:
    """One alert as Alertmanager shall know it; stamps in unix seconds of the machine's clock.

    `began_at_seconds` is the start in the agent's clock: with the labels it tells one firing from the next.
    `resolved_at_seconds` is None while it fires; `drop_at_seconds` (monotonic) ends the repeating of a resolved one.
    """

    labels: Labels
    annotations: Mapping[str, str]
    began_at_seconds: float
    starts_at_seconds: float
    resolved_at_seconds: float | None = None
    drop_at_seconds: float | None = None

    @property
    def version(self) -> tuple[float, float | None]:
        """Changes when Alertmanager must hear of it at once: a new firing, or its end. Annotations can wait."""
        return self.starts_at_seconds, self.resolved_at_seconds


class AlertLeases:
    """The alerts that are held up, by their labels."""

    def __init__(self) -> None:
        self._held: dict[Labels, HeldAlert] = {}

    def update(self, alerts: Iterable[Alert], agent_now_seconds: float, now: Instant, real_ratio: float = 1.0) -> None:
        """Take over what the agent says now; a firing alert that it no longer names is resolved.

        `real_ratio` is how long the machine takes for one second of the agent's clock: 1, but 1/20 in a demo at x20.
        """
        told = {_identity(alert): alert for alert in sorted(alerts, key=lambda alert: alert.is_firing)}
        for labels, alert in told.items():
            started_seconds = now.wall_seconds - (agent_now_seconds - alert.starts_at_seconds) * real_ratio
            held = self._held.get(labels)
            if held is None or held.began_at_seconds != alert.starts_at_seconds:
                held = HeldAlert(labels, alert.annotations, alert.starts_at_seconds, started_seconds)
            if alert.ends_at_seconds is None:
                firing = replace(held, annotations=alert.annotations, resolved_at_seconds=None, drop_at_seconds=None)
                self._held[labels] = firing
            elif held.resolved_at_seconds is None:
                age_seconds = max(0.0, agent_now_seconds - alert.ends_at_seconds) * real_ratio
                self._resolve(replace(held, annotations=alert.annotations), age_seconds, now)
        for labels, held in list(self._held.items()):
            if labels not in told and held.resolved_at_seconds is None:
                self._resolve(held, 0.0, now)
        self._drop_old(now)

    def current(self, now: Instant) -> list[HeldAlert]:
        """Everything that has to be told, firing ones first."""
        self._drop_old(now)
        return sorted(self._held.values(), key=lambda held: held.resolved_at_seconds is not None)

    def _resolve(self, held: HeldAlert, age_seconds: float, now: Instant) -> None:
        if age_seconds >= RESOLVED_RESEND_SECONDS:
            self._held.pop(held.labels, None)
            return
        self._held[held.labels] = replace(
            held,
            resolved_at_seconds=max(held.starts_at_seconds, now.wall_seconds - age_seconds),
            drop_at_seconds=now.monotonic_seconds + RESOLVED_RESEND_SECONDS - age_seconds,
        )

    def _drop_old(self, now: Instant) -> None:
        self._held = {
            labels: held
            for labels, held in self._held.items()
            if held.drop_at_seconds is None or held.drop_at_seconds > now.monotonic_seconds
        }


def _identity(alert: Alert) -> Labels:
    """Alertmanager drops labels without a value, and their order means nothing."""
    return tuple(sorted((name, value) for name, value in alert.labels if value))
