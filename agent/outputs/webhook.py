"""Recommendations as CloudEvents to a webhook, each body signed, in order, tried again until it is taken or too old."""

import asyncio
import hashlib
import hmac
import json
import logging
from collections import deque
from collections.abc import Callable, Mapping

import aiohttp

from agent.config import WebhookOutput as WebhookConfig
from agent.model import Effects, Recommendation
from agent.outputs.jsonable import recommendation_json
from probes.clock import Clock

MAX_WAITING = 1000
"""Events kept while nobody takes them; older ones are dropped, and that is told."""

SIGNATURE = "X-Signature-256"
RETRY_SECONDS = (1.0, 5.0, 30.0)  # then always the last
GONE = (400, 401, 403, 404, 405, 410, 413, 415, 422)  # the same again would be refused again

log = logging.getLogger(__name__)


def cloud_event(advice: Recommendation, source: str) -> dict[str, object]:
    """One recommendation as a structured CloudEvent 1.0; its `id` tells new advice from its verdict."""
    is_new = advice.verdict is None
    stamp = advice.at_seconds if is_new or advice.verdict_at_seconds is None else advice.verdict_at_seconds
    return {
        "specversion": "1.0",
        "id": advice.id if is_new else f"{advice.id}/{advice.verdict}",
        "source": source,
        "type": "slo-agent.recommendation" if is_new else "slo-agent.verdict",
        "subject": f"{advice.model}/{advice.role}",
        "datacontenttype": "application/json",
        "unixtime": stamp,
        "data": recommendation_json(advice),
    }


def signature(body: bytes, secret: str) -> str:
    """`sha256=` and the hexadecimal HMAC-SHA256 (RFC 2104) of the very bytes of the body."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class WebhookOutput:
    """Give it the effects of every tick; `run` posts until it is cancelled. `delivered` hears of every attempt."""

    def __init__(
        self,
        config: WebhookConfig,
        session: aiohttp.ClientSession,
        clock: Clock,
        *,
        source: str,
        delivered: Callable[[str, str], None] = lambda _output, _outcome: None,
    ) -> None:
        self._config, self._session, self._clock = config, session, clock
        self._source, self._delivered = source, delivered
        self._waiting: deque[dict[str, object]] = deque(maxlen=MAX_WAITING)
        self._news = asyncio.Event()

    def update(self, effects: Effects) -> None:
        """Take what is new; never waits."""
        for advice in effects.changed_recommendations:
            if len(self._waiting) == MAX_WAITING:
                self._delivered("webhook", "dropped")
            self._waiting.append(cloud_event(advice, self._source))
            self._news.set()

    async def run(self) -> None:
        """Post what waits, in order; a refusal for good drops the event, anything else is tried again."""
        failures = 0
        while True:
            if not self._waiting:
                self._news.clear()
                await self._news.wait()
            event = self._waiting[0]
            outcome = await self._post(event)
            self._delivered("webhook", outcome)
            if outcome == "failed":
                failures += 1
                await self._clock.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS)) - 1])
                continue
            failures = 0
            if self._waiting and self._waiting[0] is event:
                self._waiting.popleft()

    async def _post(self, event: Mapping[str, object]) -> str:
        body = json.dumps(event, allow_nan=False, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
        try:
            secret = self._config.secret()
            if secret:
                headers[SIGNATURE] = signature(body, secret)
            async with (
                asyncio.timeout(self._clock.real_seconds(self._config.timeout_seconds)),
                self._session.post(self._config.url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                if 200 <= answer.status < 300:
                    return "ok"
                log.warning("webhook refused status=%d id=%s", answer.status, event["id"])
                return "refused" if answer.status in GONE else "failed"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            log.warning("webhook not reached reason=%s id=%s", type(error).__name__, event["id"])
            return "failed"
