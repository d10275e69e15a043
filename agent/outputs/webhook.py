"""Recommendations as CloudEvents to a webhook, each body signed, in order."""

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import Callable

import aiohttp

from agent.config_outputs import WebhookOutput as WebhookConfig
from agent.model import Effects, Recommendation
from agent.outputs.in_order import InOrder, Outcome, outcome_of
from agent.outputs.jsonable import recommendation_json
from probes.clock import Clock

SIGNATURE = "X-Signature-256"

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
        "unixtime": f"{stamp:.3f}",
        "data": recommendation_json(advice),
    }


def signature(body: bytes, secret: str) -> str:
    """`sha256=` and the hexadecimal HMAC-SHA256 (RFC 2104) of the very bytes of the body."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class WebhookOutput:
    """Give it the effects of every tick; `run` posts until it is cancelled."""

    def __init__(
        self,
        config: WebhookConfig,
        session: aiohttp.ClientSession,
        clock: Clock,
        *,
        source: str,
        delivered: Callable[[str, str], None] = lambda _output, _outcome: None,
    ) -> None:
        self._config, self._session, self._clock, self._source = config, session, clock, source
        self._posts: InOrder[Recommendation] = InOrder("webhook", self._post, clock, delivered)
        self.run = self._posts.run

    def update(self, effects: Effects) -> None:
        """Take what is new; never waits."""
        for advice in effects.changed_recommendations:
            self._posts.put(advice)

    async def _post(self, advice: Recommendation) -> Outcome:
        body = json.dumps(cloud_event(advice, self._source), allow_nan=False, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
        try:
            secret = self._config.secret()
            if secret:
                headers[SIGNATURE] = signature(body, secret)
            async with (
                asyncio.timeout(self._clock.real_seconds(self._config.timeout_seconds)),
                self._session.post(self._config.url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                outcome = outcome_of(answer.status)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            log.warning("webhook not reached reason=%s id=%s", type(error).__name__, advice.id)
            return "failed"
        if outcome != "ok":
            log.warning("webhook %s status=%d id=%s", outcome, answer.status, advice.id)
        return outcome
