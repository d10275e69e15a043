"""The server over a fake agent, met over HTTP."""

from collections.abc import Awaitable, Callable

import pytest
from aiohttp.test_utils import TestClient
from fake_actions import FakeActions
from fake_view import FakeView
from prometheus_client import CollectorRegistry, Counter

from agent.web.server import make_app

Serve = Callable[..., Awaitable[TestClient]]


@pytest.fixture
def serve(aiohttp_client) -> Serve:
    """`await serve(view)`: a client of the server that shows `view`; further arguments go to make_app."""

    async def start(view: FakeView, actions: FakeActions | None = None, **options: object) -> TestClient:
        registry = CollectorRegistry()
        Counter("slo_agent_ticks", "Ticks.", registry=registry).inc(7)
        return await aiohttp_client(make_app(view, registry, actions or FakeActions(), **options))

    return start
