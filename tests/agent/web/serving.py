"""The type of the `serve` fixture."""

from collections.abc import Awaitable, Callable

from aiohttp.test_utils import TestClient

Serve = Callable[..., Awaitable[TestClient]]
