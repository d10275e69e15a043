"""Recommendations as signed CloudEvents, against a real HTTP server."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from filled_view import ADVICE

from agent.config_outputs import WebhookOutput as Config
from agent.model import Effects, Recommendation, Snapshot
from agent.outputs.webhook import WebhookOutput, cloud_event, signature
from probes.clock import SystemClock

EMPTY = Snapshot(0.0, (), (), (), ())
SECRET = "between us"


class Receiver:
    """Answers with the given statuses in turn, then 204; keeps what it took."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.taken: list[tuple[bytes, str, str]] = []
        self.changed = asyncio.Event()

    async def take(self, request: web.Request) -> web.Response:
        status = self.statuses.pop(0) if self.statuses else 204
        headers = request.headers
        self.taken.append((await request.read(), headers["Content-Type"], headers.get("X-Signature-256", "")))
        self.changed.set()
        return web.Response(status=status)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.taken) < count:
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture
async def receiver() -> AsyncIterator[tuple[Receiver, str]]:
    mine, app = Receiver(), web.Application()
    app.router.add_post("/advice", mine.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield mine, f"http://127.0.0.1:{runner.addresses[0][1]}/advice"
    await runner.cleanup()


def effects(*advice: Recommendation) -> Effects:
    return Effects((), advice, EMPTY)


async def post(
    url: str, secret_file: Path | None, receiver: Receiver, count: int, *advice: Recommendation
) -> list[str]:
    """Post these until the receiver was called so often; the outcomes that were told."""
    outcomes: list[str] = []
    told = asyncio.Event()

    def delivered(_: str, outcome: str) -> None:
        outcomes.append(outcome)
        if len(outcomes) == count:
            told.set()

    async with aiohttp.ClientSession() as session:
        config = Config(url=url, secret_file=secret_file)
        output = WebhookOutput(config, session, SystemClock(), source="agent-0", delivered=delivered)
        output.update(effects(*advice))
        running = asyncio.create_task(output.run())
        await receiver.until(count)
        async with asyncio.timeout(10):
            await told.wait()
        running.cancel()
    return outcomes


async def test_a_recommendation_arrives_once_and_signed(receiver: tuple[Receiver, str], tmp_path: Path) -> None:
    mine, url = receiver
    (tmp_path / "secret").write_text(SECRET + "\n")
    assert await post(url, tmp_path / "secret", mine, 1, ADVICE) == ["ok"]
    body, kind, signed = mine.taken[0]
    event = json.loads(body)
    assert kind == "application/cloudevents+json; charset=utf-8"
    assert (event["specversion"], event["type"]) == ("1.0", "slo-agent.recommendation")
    assert (event["id"], event["source"], event["data"]["id"]) == (ADVICE.id, "agent-0", ADVICE.id)
    assert signed == "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()


async def test_without_a_secret_nothing_is_signed(receiver: tuple[Receiver, str]) -> None:
    mine, url = receiver
    await post(url, None, mine, 1, ADVICE)
    assert mine.taken[0][2] == ""


async def test_a_server_in_trouble_gets_it_again_and_in_order(receiver: tuple[Receiver, str]) -> None:
    mine, url = receiver
    mine.statuses = [503]
    judged = replace(ADVICE, verdict="kept", verdict_at_seconds=ADVICE.at_seconds + 600)
    assert await post(url, None, mine, 3, ADVICE, judged) == ["failed", "ok", "ok"]
    ids = [json.loads(body)["id"] for body, _, _ in mine.taken]
    assert ids == [ADVICE.id, ADVICE.id, f"{ADVICE.id}/kept"]


async def test_what_is_refused_for_good_is_not_sent_again(receiver: tuple[Receiver, str]) -> None:
    mine, url = receiver
    mine.statuses = [401]
    other = replace(ADVICE, id="r-2")
    assert await post(url, None, mine, 2, ADVICE, other) == ["refused", "ok"]


def test_a_verdict_is_an_event_of_its_own() -> None:
    judged = replace(ADVICE, verdict="missed", verdict_at_seconds=ADVICE.at_seconds + 600)
    assert cloud_event(judged, "s")["type"] == "slo-agent.verdict"
    assert cloud_event(judged, "s")["id"] != cloud_event(ADVICE, "s")["id"]


def test_signature_of_a_known_text() -> None:
    """RFC 4231, test case 2."""
    known = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert signature(b"what do ya want for nothing?", "Jefe") == f"sha256={known}"
