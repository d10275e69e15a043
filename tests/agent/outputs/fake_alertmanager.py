"""A fast stand-in for Alertmanager's API on loopback: it records posts and answers as it is told."""

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

from aiohttp import web

from agent.model import Alert, Effects, Snapshot

Body = list[dict[str, Any]]


class FakeAlertmanager:
    """Takes everything, until `status`, `silent` or `ahead_seconds` say otherwise."""

    def __init__(self) -> None:
        self.posts: list[Body] = []
        self.posted_at_seconds: list[float] = []
        self.status: Callable[[Body], int] = lambda _body: 200
        self.silent = False
        self.ahead_seconds = 0.0
        self.app = web.Application()
        self.app.router.add_post("/am/api/v2/alerts", self._take)

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.posts.append(body)
        self.posted_at_seconds.append(time.monotonic())
        if self.silent:
            await asyncio.sleep(30)
        date = formatdate(time.time() + self.ahead_seconds, usegmt=True)
        return web.Response(status=self.status(body), headers={"Date": date})

    def names(self) -> list[list[str]]:
        """The alert names of every post."""
        return [[alert["labels"]["alertname"] for alert in body] for body in self.posts]

    def of(self, name: str) -> Body:
        """Every posted copy of one alert, oldest first."""
        return [alert for body in self.posts for alert in body if alert["labels"]["alertname"] == name]


def alert(name: str = "SLOBurnRate", began: float = 0.0, ended: float | None = None, **labels: str) -> Alert:
    return Alert((("alertname", name), *labels.items()), {"summary": name, "cause": ""}, began, ended)


def effects(*alerts: Alert, at: float) -> Effects:
    return Effects((), (), Snapshot(at, (), (), alerts, ()))


async def until(condition: Callable[[], bool], within_seconds: float = 5.0) -> None:
    """Wait for the condition; fails when it does not come true in time."""
    async with asyncio.timeout(within_seconds):
        while not condition():  # noqa: ASYNC110  what is waited for happens in another process or handler
            await asyncio.sleep(0.005)
