"""The server over a fake agent, met over HTTP."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import browser
import pytest
from aiohttp.test_utils import TestClient
from fake_actions import FakeActions
from fake_view import FakeView
from prometheus_client import CollectorRegistry, Counter
from pytest_aiohttp.plugin import AiohttpClient
from serving import Serve

from agent.web.server import make_app


@pytest.fixture
def serve(aiohttp_client: AiohttpClient) -> Serve:
    """Start the server that shows a view, and return its client; further arguments go to make_app."""

    async def start(view: FakeView, actions: FakeActions | None = None, **options: object) -> TestClient:
        registry = CollectorRegistry()
        Counter("slo_agent_ticks", "Ticks.", registry=registry).inc(7)
        return await aiohttp_client(make_app(view, registry, actions or FakeActions(), **options))

    return start


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[browser.Page]:
    """A tab of a real Chromium; its absence is a reason to skip on a laptop, and a failure in CI."""
    binary = browser.chromium()
    if binary is None:
        reason = "no Chromium on PATH: install chromium to run the tests of the page"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    async with browser.started(binary, tmp_path / "profile") as tab:
        yield tab
