"""One Alertmanager: what it was told, whether it answers, how its clock stands to ours."""

import asyncio
import json
import logging
from collections.abc import Callable
from urllib.parse import urlsplit

import aiohttp

from agent.config_outputs import Alertmanager
from agent.outputs.alert_lease import HeldAlert, Instant
from agent.outputs.alert_wire import MAX_SKEW_SECONDS, clock_skew_seconds, is_skewed, postable_alert
from agent.outputs.peer_schedule import PeerSchedule

MAX_BATCH = 256
"""Alerts in one post. Source: Prometheus, notifier/manager.go, DefaultMaxBatchSize."""

OK, INVALID = "ok", "status_400"
log = logging.getLogger(__name__)


class AlertmanagerPeer:
    """One Alertmanager: what it was told, whether it answers, how its clock stands to ours."""

    def __init__(
        self,
        url: str,
        config: Alertmanager,
        session: aiohttp.ClientSession,
        delivered: Callable[[str, str], None],
        instant: Callable[[], Instant],
    ) -> None:
        self.name = urlsplit(url).netloc.rpartition("@")[2]
        self._url = f"{url}/api/v2/alerts"
        self._resend_seconds = config.resend_seconds
        self._timeout = aiohttp.ClientTimeout(total=config.timeout_seconds)
        self._session = session
        self._delivered = delivered
        self._instant = instant
        self._schedule = PeerSchedule(config.resend_seconds)
        self._woken = asyncio.Event()
        self._outcome = OK
        self._skew_seconds = 0.0

    def wake(self) -> None:
        """There may be something new to tell."""
        self._woken.set()

    async def run(self, held: Callable[[], list[HeldAlert]]) -> None:
        """Tell the peer what is due, whenever it is due."""
        while True:
            self._woken.clear()
            await self.post_due(held())
            wait_seconds = self._schedule.wait_seconds(self._instant().monotonic_seconds)
            try:
                await asyncio.wait_for(self._woken.wait(), wait_seconds)
            except TimeoutError:
                continue

    async def post_due(self, held: list[HeldAlert]) -> None:
        """One round: the alerts that are due, in batches; stops at the first batch that the peer does not take."""
        started_seconds = self._instant().monotonic_seconds
        due, is_all = self._schedule.due(held, started_seconds), self._schedule.is_all_due(started_seconds)
        if not due and not is_all:
            return
        was_skewed = is_skewed(self._skew_seconds)
        for first in range(0, len(due), MAX_BATCH):
            outcome = await self._post_halving(due[first : first + MAX_BATCH])
            if outcome not in (OK, INVALID):
                self._schedule.failed(self._instant().monotonic_seconds)
                return
        self._schedule.finished(held, self._instant().monotonic_seconds, was_all=is_all)
        if is_skewed(self._skew_seconds) and not was_skewed:
            self._schedule.again()

    async def _post_halving(self, batch: list[HeldAlert]) -> str:
        """A 400 names no culprit (the valid alerts are stored all the same): halves find it, and it is left out."""
        outcome = await self._post(batch)
        if outcome == OK:
            self._schedule.accepted(batch)
        elif outcome == INVALID and len(batch) == 1:
            self._schedule.refused(batch[0])
            log.error("alert refused peer=%s alertname=%s", self.name, dict(batch[0].labels).get("alertname"))
        elif outcome == INVALID:
            middle = len(batch) // 2
            for half in (batch[:middle], batch[middle:]):
                outcome = await self._post_halving(half)
                if outcome not in (OK, INVALID):
                    break
        return outcome

    async def _post(self, batch: list[HeldAlert]) -> str:
        outcome = await self._exchange(batch)
        self._delivered(f"alertmanager/{self.name}", outcome)
        reached = outcome in (OK, INVALID)
        if reached != (self._outcome in (OK, INVALID)):
            if reached:
                log.info("alertmanager reached again peer=%s", self.name)
            else:
                log.warning("alertmanager not reached peer=%s reason=%s", self.name, outcome)
        self._outcome = outcome
        return outcome

    async def _exchange(self, batch: list[HeldAlert]) -> str:
        before = self._instant().wall_seconds
        body = [postable_alert(held, before, self._resend_seconds, self._skew_seconds) for held in batch]
        try:
            async with self._session.post(
                self._url,
                data=json.dumps(body).encode(),
                headers={"Content-Type": "application/json"},
                timeout=self._timeout,
                allow_redirects=False,
            ) as response:
                await response.content.read(1)
                self._note_skew(clock_skew_seconds(response.headers, (before + self._instant().wall_seconds) / 2))
                return OK if response.status == 200 else f"status_{response.status}"
        except TimeoutError:
            return "timeout"
        except aiohttp.ClientConnectionError:
            return "connect_failed"
        except (aiohttp.ClientError, OSError):
            return "broken_answer"

    def _note_skew(self, skew_seconds: float | None) -> None:
        if skew_seconds is None:
            return
        if is_skewed(skew_seconds) != is_skewed(self._skew_seconds):
            limit = MAX_SKEW_SECONDS
            log.warning("alertmanager clock peer=%s skew_seconds=%.0f limit=%g", self.name, skew_seconds, limit)
        self._skew_seconds = skew_seconds
