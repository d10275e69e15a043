"""Alerts to every Alertmanager: one task per peer, so that a dead one delays no other.

Prometheus does it so too: https://prometheus.io/docs/alerting/latest/clients/ asks clients to post to all peers, again
and again, and never through a load balancer.
"""

import asyncio
import logging
import time
from collections.abc import Callable

import aiohttp

from agent.config_outputs import Alertmanager
from agent.model import Alert, Effects
from agent.outputs.alert_lease import LEASE_RESENDS, AlertLeases, HeldAlert, Instant
from agent.outputs.alertmanager_peer import AlertmanagerPeer
from probes.clock import Clock

log = logging.getLogger(__name__)


def machine_instant() -> Instant:
    """The machine's time now, whatever the agent's clock says."""
    return Instant(time.time(), time.monotonic())


class AlertmanagerOutput:
    """Holds the agent's alerts up in every Alertmanager of the config.

    `session` posts; its owner closes it. `clock` is the agent's, and only tells its scale. `node` goes into the
    watchdog's labels. `delivered` is called with ("alertmanager/<host>", outcome) after every post.
    """

    def __init__(
        self,
        config: Alertmanager,
        session: aiohttp.ClientSession,
        clock: Clock,
        *,
        node: str | None = None,
        delivered: Callable[[str, str], None] = lambda _output, _outcome: None,
        instant: Callable[[], Instant] = machine_instant,
    ) -> None:
        self._config = config
        self._real_ratio = clock.real_seconds(1.0)
        self._instant = instant
        self._leases = AlertLeases()
        self._watchdog = _watchdog(node, instant().wall_seconds) if config.watchdog else None
        self._told_at_seconds: float | None = None
        self._peers = [AlertmanagerPeer(url, config, session, delivered, instant) for url in config.urls]

    def update(self, effects: Effects) -> None:
        """Take over the alerts of a tick. Never waits."""
        now = self._instant()
        alerts = (*effects.changed_alerts, *effects.snapshot.alerts)
        self._leases.update(alerts, effects.snapshot.at_seconds, now, self._real_ratio)
        self._told_at_seconds = now.monotonic_seconds
        for peer in self._peers:
            peer.wake()

    async def run(self) -> None:
        """Post what is due to every peer, until cancelled; returns at once where there is none."""
        async with asyncio.TaskGroup() as group:
            for peer in self._peers:
                group.create_task(peer.run(self._held))

    async def drain(self) -> None:
        """One last post of what each peer has not heard yet; takes at most `timeout_seconds`. After `run` has ended.

        Firing alerts are not resolved: the next agent renews them, or Alertmanager lets them run out.
        """
        rounds = (peer.post_due(self._held()) for peer in self._peers)
        try:
            await asyncio.wait_for(asyncio.gather(*rounds), self._config.timeout_seconds)
        except TimeoutError:
            log.warning("alertmanager drain incomplete timeout_seconds=%g", self._config.timeout_seconds)

    def _held(self) -> list[HeldAlert]:
        """With the watchdog only while ticks come: it has to fall silent with the agent."""
        now = self._instant()
        held = self._leases.current(now)
        patience_seconds = LEASE_RESENDS * self._config.resend_seconds
        if self._watchdog is None or self._told_at_seconds is None:
            return held
        is_alive = now.monotonic_seconds - self._told_at_seconds < patience_seconds
        return [*held, self._watchdog] if is_alive else held


def _watchdog(node: str | None, starts_at_seconds: float) -> HeldAlert:
    """Always firing, for a dead-man's switch behind Alertmanager that pages when it falls silent."""
    alert = Alert((("alertname", "Watchdog"), ("severity", "none"), ("node", node or "")), {}, starts_at_seconds)
    labels = tuple(sorted((name, value) for name, value in alert.labels if value))
    summary = {"summary": "The SLO agent is alive. This alert always fires; its absence is the alarm."}
    return HeldAlert(labels, summary, starts_at_seconds, starts_at_seconds)
