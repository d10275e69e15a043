"""A stand-in for Kubernetes' API on the loopback address, built from the documented shapes of API v1."""

import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer


def pod(name: str, ip: str = "10.0.0.1", **given: Any) -> dict[str, Any]:
    """A ready pod with one port named http; `given` replaces labels, annotations, ports, ready, phase, node, ..."""
    ports = given.get("ports", [{"name": "http", "containerPort": 8000, "protocol": "TCP"}])
    limits = {"nvidia.com/gpu": str(given["gpus"])} if "gpus" in given else {}
    return {
        "metadata": {
            "name": name,
            "namespace": given.get("namespace", "serving"),
            "uid": given.get("uid", f"uid-{name}"),
            "labels": given.get("labels", {}),
            "annotations": given.get("annotations", {}),
            **({"deletionTimestamp": "2026-11-29T18:00:00Z"} if given.get("deleted") else {}),
        },
        "spec": {
            "nodeName": given.get("node", "gpu-1"),
            "containers": [
                {"name": "vllm", "ports": ports, "resources": {"limits": limits}, "args": given.get("args", [])}
            ],
        },
        "status": {
            "phase": given.get("phase", "Running"),
            **({"podIP": ip} if ip else {}),
            "conditions": [{"type": "Ready", "status": "True" if given.get("ready", True) else "False"}],
        },
    }


@dataclass(slots=True)
class FakeKubernetes:
    """Its pods, the token it wants, how many pods a page has, and what it was asked."""

    pods: list[dict[str, Any]] = field(default_factory=list)
    token: str = "secret-token"
    page: int = 500
    url: str = ""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    body: object = None  # answered instead of a list, where it is not None
    written: list[tuple[str, str, Any]] = field(default_factory=list)  # (method, path, body) of what was written
    status: int = 201  # answered to what is written

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.path, dict(request.query)))
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"kind": "Status", "code": 401, "message": "Unauthorized"}, status=401)
        if self.body is not None:
            return web.json_response(self.body)
        node = request.query.get("fieldSelector", "").removeprefix("spec.nodeName=")
        chosen = [pod for pod in self.pods if not node or pod["spec"]["nodeName"] == node]
        start = int(request.query.get("continue", "0"))
        more = {"continue": str(start + self.page)} if start + self.page < len(chosen) else {}
        items = chosen[start : start + self.page]
        return web.json_response({"kind": "PodList", "apiVersion": "v1", "metadata": more, "items": items})

    async def write(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"kind": "Status", "code": 401, "message": "Unauthorized"}, status=401)
        self.written.append((request.method, request.path, json.loads(await request.text())))
        return web.json_response({}, status=self.status)


@contextlib.asynccontextmanager
async def kubernetes(*pods: dict[str, Any], tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeKubernetes]:
    """The API for as long as the context lasts."""
    fake = FakeKubernetes(list(pods))
    app = web.Application()
    app.router.add_get("/api/v1/pods", fake.answer)
    app.router.add_get("/api/v1/namespaces/{namespace}/pods", fake.answer)
    app.router.add_post("/api/v1/namespaces/{namespace}/events", fake.write)
    app.router.add_patch("/apis/apps/v1/namespaces/{namespace}/{kind}/{name}", fake.write)
    served = TestServer(app, scheme="https" if tls else "http")
    await served.start_server(ssl=tls)
    try:
        fake.url = str(served.make_url("")).rstrip("/")
        yield fake
    finally:
        await served.close()
