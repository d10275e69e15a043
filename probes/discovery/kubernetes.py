"""Targets from the pods of a Kubernetes cluster, by plain HTTPS to its API with a service account.

Pods are listed, page by page, at every refresh: one request of some kilobytes each 10 s, and nothing that has to be
resumed. Source: the documented shapes of API v1 (PodList with metadata.continue; labelSelector and fieldSelector).
Unverified on a real cluster.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from probes.discovery.answer import get_json
from probes.discovery.file import Found
from probes.discovery.item import KubernetesDiscovery
from probes.discovery.pods import is_gone, is_ready, pod_endpoint

PAGE = 500  # pods a request; the API's own clients use the same


@dataclass(slots=True)
class KubernetesTargets:
    """The pods that an item selects. An answer that is none keeps the last good list.

    A pod counts from when it is first ready until it ends: one that loads its weights is not down yet, and one that
    stops being ready is just what is to be seen.
    """

    item: KubernetesDiscovery
    trouble: str = ""
    _found: tuple[Found, ...] = field(default_factory=tuple)
    _was_ready: frozenset[str] = frozenset()
    _tls: ssl.SSLContext | None = None
    _tls_changed_at: float | None = None

    @property
    def place(self) -> str:
        """Which pods."""
        where = "all namespaces" if self.item.all_namespaces else self.item.namespace or "its own namespace"
        return f"kubernetes pods of {where}" + (f" ({self.item.label_selector})" if self.item.label_selector else "")

    def look(self) -> tuple[Found, ...]:
        """The last good list."""
        return self._found

    async def refresh(self, session: aiohttp.ClientSession) -> None:
        """List the pods anew; `trouble` says why that did not work, or which pod has no port."""
        try:
            async with asyncio.timeout(self.item.timeout_seconds):
                pods = [pod async for pod in self._pods(session)]
            found, ready, lacking = self._endpoints(pods)
        except (TimeoutError, OSError, ValueError, TypeError, KeyError, AttributeError, aiohttp.ClientError) as error:
            self.trouble = (
                f"{self.place}: {self._reason(error)}. The last good list ({len(self._found)} targets) stays."
            )
            return
        self._found, self._was_ready = found, ready
        self.trouble = f"{self.place}: {'; '.join(lacking)}." if lacking else ""

    async def _pods(self, session: aiohttp.ClientSession) -> AsyncIterator[Mapping[str, Any]]:
        url = self._url()
        tls = self._context() if url.startswith("https") else None
        params = {"limit": str(PAGE)}
        if self.item.label_selector:
            params["labelSelector"] = self.item.label_selector
        if self.item.node:
            params["fieldSelector"] = f"spec.nodeName={self.item.node}"
        while True:
            page = await get_json(session, url, params=params, token_file=self.item.token_file, tls=tls)
            for pod in page["items"] or ():
                yield pod
            following = page.get("metadata", {}).get("continue")
            if not following:
                return
            params["continue"] = following

    def _endpoints(self, pods: list[Mapping[str, Any]]) -> tuple[tuple[Found, ...], frozenset[str], list[str]]:
        """Endpoints, the pods (by uid) that are or were ready, and what some lack."""
        found, ready, lacking = [], set(), []
        for pod in sorted(pods, key=lambda pod: (pod["metadata"].get("namespace", ""), pod["metadata"]["name"])):
            uid = str(pod["metadata"].get("uid", pod["metadata"]["name"]))
            if is_gone(pod) or not (is_ready(pod) or uid in self._was_ready):
                continue
            ready.add(uid)
            endpoint = pod_endpoint(pod, self.item)
            if isinstance(endpoint, str):
                lacking.append(endpoint)
            else:
                found.append(endpoint)
        return tuple(found), frozenset(ready), lacking

    def _url(self) -> str:
        api = self.item.api_url or api_of_this_cluster()
        if self.item.all_namespaces:
            return f"{api}/api/v1/pods"
        namespace = self.item.namespace or self.item.namespace_file.read_text(encoding="utf-8").strip()
        return f"{api}/api/v1/namespaces/{namespace}/pods"

    def _context(self) -> ssl.SSLContext:
        """Trust in the cluster's own certificates; the file is read again when it changes."""
        changed_at = self.item.ca_file.stat().st_mtime
        if self._tls is None or changed_at != self._tls_changed_at:
            self._tls = ssl.create_default_context(cafile=str(self.item.ca_file))
            self._tls_changed_at = changed_at
        return self._tls

    def _reason(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"no answer within {self.item.timeout_seconds:g} s"
        if isinstance(error, KeyError | TypeError | AttributeError):
            return "the answer is no list of pods"
        if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLError):
            return f"the API's certificate is not among those of {self.item.ca_file}"
        if isinstance(error, OSError) and error.filename:
            return f"{error.filename}: {error.strerror}"
        return " ".join(str(error).split()) or type(error).__name__


def api_of_this_cluster() -> str:
    """What Kubernetes tells every pod in its environment. Raises ValueError outside of one."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ValueError("this is no pod: KUBERNETES_SERVICE_HOST is not set; write api_url")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
