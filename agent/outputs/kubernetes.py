"""Recommendations as Kubernetes Events on the workload they are about, and as an annotation of it; nothing is scaled.

Shapes: Event of API v1, and a merge patch of metadata.annotations of apps/v1. Unverified on a real cluster.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import aiohttp

from agent.config_outputs import KubernetesOutput as KubernetesConfig
from agent.config_outputs import Workload
from agent.model import Effects, Recommendation
from agent.outputs.in_order import InOrder, Outcome, outcome_of
from agent.outputs.jsonable import recommendation_json
from probes.clock import Clock
from probes.discovery.kubernetes import api_of_this_cluster

ANNOTATION = "slo-agent/recommendation"
LONGEST_MESSAGE = 1000  # API v1: an Event's message has up to 1024 bytes

log = logging.getLogger(__name__)


def event_of(advice: Recommendation, workload: Workload, namespace: str) -> dict[str, object]:
    """An Event of API v1; one name for one recommendation and verdict, so that it is there once."""
    is_new = advice.verdict is None
    stamp = advice.at_seconds if is_new or advice.verdict_at_seconds is None else advice.verdict_at_seconds
    at = datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    message = advice.summary if is_new else f"{advice.id}: {advice.verdict}"
    name = f"{workload.name}.{advice.action}.{advice.reason_code}.{stamp:.0f}.{advice.verdict or 'open'}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name.replace("_", "-"), "namespace": namespace},
        "involvedObject": {
            "apiVersion": "apps/v1",
            "kind": workload.kind,
            "name": workload.name,
            "namespace": namespace,
        },
        "type": "Normal",
        "reason": "Recommendation" if is_new else "RecommendationVerdict",
        "message": message.encode()[:LONGEST_MESSAGE].decode(errors="ignore"),
        "source": {"component": "slo-agent"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


class KubernetesOutput:
    """Give it the effects of every tick; `run` tells the API until cancelled. Advice about no workload is left out."""

    def __init__(
        self,
        config: KubernetesConfig,
        session: aiohttp.ClientSession,
        clock: Clock,
        delivered: Callable[[str, str], None] = lambda _output, _outcome: None,
    ) -> None:
        self._config, self._session, self._clock = config, session, clock
        self._posts: InOrder[tuple[Recommendation, Workload]] = InOrder("kubernetes", self._tell, clock, delivered)
        self.run = self._posts.run

    def update(self, effects: Effects) -> None:
        """Take what is new; never waits."""
        for advice in effects.changed_recommendations:
            for workload in self._config.workloads:
                if workload.role == advice.role and workload.model in (None, advice.model):
                    self._posts.put((advice, workload))

    async def _tell(self, what: tuple[Recommendation, Workload]) -> Outcome:
        advice, workload = what
        try:
            async with asyncio.timeout(self._clock.real_seconds(self._config.timeout_seconds)):
                namespace = self._config.namespace or self._config.namespace_file.read_text(encoding="utf-8").strip()
                event = event_of(advice, workload, namespace)
                outcome = await self._ask("POST", f"/api/v1/namespaces/{namespace}/events", event, "application/json")
                if outcome == "ok" and self._config.annotate:
                    text = json.dumps(recommendation_json(advice), allow_nan=False, separators=(",", ":"))
                    patch = {"metadata": {"annotations": {ANNOTATION: text}}}
                    place = f"/apis/apps/v1/namespaces/{namespace}/{workload.kind.lower()}s/{workload.name}"
                    outcome = await self._ask("PATCH", place, patch, "application/merge-patch+json")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            log.warning("kubernetes not told reason=%s id=%s", type(error).__name__, advice.id)
            return "failed"
        return outcome

    async def _ask(self, method: str, path: str, body: Mapping[str, object], kind: str) -> Outcome:
        url = (self._config.api_url or api_of_this_cluster()) + path
        tls = ssl.create_default_context(cafile=str(self._config.ca_file)) if url.startswith("https") else True
        token = self._config.token_file.read_text(encoding="utf-8").strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
        async with self._session.request(
            method, url, data=json.dumps(body), headers=headers, ssl=tls, allow_redirects=False
        ) as answer:
            outcome = outcome_of(answer.status)
            if outcome != "ok":
                log.warning("kubernetes %s status=%d path=%s", outcome, answer.status, path)
            return outcome
