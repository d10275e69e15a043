"""A green page is a promise that somebody would be woken: it is not given while no Alertmanager takes anything."""

import fake_view
import pytest
from fake_world import NOW_SECONDS
from prometheus_client import CollectorRegistry
from serving import Serve

from agent.outputs.self_metrics import SelfMetrics
from agent.web.paging import Paging

AM, PEER = "alertmanager/am:9093", "alertmanager/peer:9093"


def told(*looks: tuple[float, str, str], peers: list[str] | None = None, now: float = NOW_SECONDS) -> tuple[str, str]:
    """The sentence at `now` after deliveries (seconds before now, output, outcome), each noticed at its time."""
    registry = CollectorRegistry()
    metrics = SelfMetrics(registry)
    paging = Paging(registry, peers)
    for age_seconds, output, outcome in looks:
        metrics.delivered(output, outcome)
        paging.observe(now - age_seconds)
    said = paging.sentence(now)
    return (said.level, said.text) if said else ("good", "")


@pytest.mark.parametrize(
    ("looks", "level", "text"),
    [
        ([], "good", ""),
        ([(180, AM, "ok")], "good", ""),
        ([(200, AM, "connect_failed"), (180, AM, "ok")], "good", ""),
        ([(30, AM, "ok"), (5, AM, "timeout")], "good", ""),  # one lost post is repeated within the minute
        (
            [(185, AM, "ok"), (150, AM, "timeout"), (100, AM, "timeout")],
            "bad",
            "Nobody can be paged: Alertmanager at am:9093 has not taken anything for 3 min",
        ),
        (
            [(240, AM, "connect_failed"), (2, AM, "connect_failed")],
            "bad",
            "Nobody can be paged: Alertmanager at am:9093 has never taken anything, tried for 4 min",
        ),
        (
            [(185, AM, "ok"), (185, PEER, "ok"), (150, AM, "timeout"), (2, PEER, "ok")],
            "watch",
            "Alertmanager at am:9093 has not taken anything for 3 min; peer:9093 has",
        ),
        ([(185, "jsonl", "disk_full")], "good", ""),  # no pager
    ],
)
def test_who_could_be_paged(looks: list[tuple[float, str, str]], level: str, text: str) -> None:
    assert told(*looks) == (level, text)


def test_without_an_alertmanager_in_the_config_nobody_is_paged() -> None:
    assert told(peers=[]) == ("watch", "Nobody can be paged: no Alertmanager is configured")


def test_a_second_peer_that_was_never_tried_cannot_vouch() -> None:
    """Two are configured; one fails, and of the other nothing is known."""
    peers = ["http://user:word@am:9093", "http://peer:9093/prefix"]
    level, text = told((185, AM, "ok"), (150, AM, "timeout"), peers=peers)
    assert level == "bad"
    assert text == "Nobody can be paged: Alertmanager at am:9093 has not taken anything for 3 min"


async def test_the_verdict_is_not_green_while_nobody_can_be_paged(serve: Serve) -> None:
    client = await serve(fake_view.calm(), alertmanagers=[])
    status = await (await client.get("/api/v1/status")).json()
    assert status["verdict"]["level"] == "watch"
    assert status["verdict"]["text"] == "Nobody can be paged: no Alertmanager is configured"
    assert status["verdict"]["details"] == ["All 3 SLOs are kept"]
