"""The demo's narrator and operator: every line can be understood, and the operator does what the advice says."""

import asyncio
import time

from aiohttp import web
from loopback import server, until

from agent.config_file import parse_config
from agent.demo import FILE
from agent.model import Alert, Effects, Recommendation, Snapshot
from agent.simulator.scenarios import SCENARIOS
from agent.story import READING_SECONDS, VERDICTS, Story
from probes.clock import ScaledClock

EPOCH = 1_700_000_000.0


def effects(
    *,
    alerts: tuple[Alert, ...] = (),
    advice: tuple[Recommendation, ...] = (),
    firing: tuple[Alert, ...] = (),
    at: float = EPOCH + 120.0,
) -> Effects:
    return Effects(alerts, advice, Snapshot(at, (), (), firing, ()))


def page(ends_at: float | None = None, **more: str) -> Alert:
    labels = {"alertname": "SLOBurnRate", "severity": "page", "tier": "fast", "slo": "chat"} | more
    words = {"summary": "chat burns", "cause": "a queue"}
    return Alert(labels=tuple(labels.items()), annotations=words, starts_at_seconds=EPOCH, ends_at_seconds=ends_at)


def advice(verdict: str | None = None) -> Recommendation:
    return Recommendation(
        id="scale-1", at_seconds=110, model="m", role="aggregated", action="scale", current=2, proposed=4,
        low=3, high=5, reason_code="sustained_queueing", binding="queue",
        summary="Scale m from 2 to 4 replicas.", confidence=0.7,
        meets_slo=None, evidence=(), alternatives=(), do_nothing={}, side_effects=(), steps=(), rollback="",
        verify_at_seconds=900, verdict=verdict,
    )  # fmt: skip


def story(url: str = "http://127.0.0.1:9") -> tuple[Story, list[str]]:
    said: list[str] = []
    return Story(url, ScaledClock(1000, EPOCH), said.append), said


def state(rate: float = 8.0, ready: tuple[int, ...] = (0, 1), lag: float = 0.0) -> dict[str, object]:
    phases = [{"index": index, "phase": "ready" if index in ready else "starting"} for index in range(4)]
    return {"at": EPOCH + 480.0, "lag_seconds": lag, "rate_per_second": rate, "replicas": phases}


async def test_the_narrator_tells_page_advice_verdict_and_the_end() -> None:
    """Two minutes after the simulator began; the time beside them is the one that the page shows."""
    asked: list[object] = []

    async def scales(request: web.Request) -> web.Response:
        asked.append(await request.json())
        return web.json_response({})

    async with server(scales) as control:
        tale, said = story(control.url)
        tale.hear(effects(alerts=(page(),), firing=(page(),)))
        tale.hear(effects(advice=(advice(),), firing=(page(),)))
        await until(lambda: asked == [{"count": 4}], "the operator did what the advice says")
        tale.hear(effects(alerts=(page(ends_at=EPOCH + 119),)))
        assert not tale.ended.is_set(), "its advice has no verdict yet"
        tale.hear(effects(advice=(advice("kept"),)))
        await until(lambda: any("asks for 4" in line for line in said), "it was told")
    assert tale.ended.is_set()
    clock = time.strftime("%H:%M:%S", time.localtime(EPOCH + 120))
    text = "\n".join(said)
    for words in (
        f"[ 2.0 min {clock}] PAGE: chat burns",
        "why: a queue",
        "ADVICE: Scale m",
        "verdict: the advice came true: kept",
        "it was: Scale m from 2 to 4 replicas.",
        "resolved: SLOBurnRate of chat (fast), the page of 2m ago",
    ):
        assert words in text


async def test_the_story_ends_also_where_the_advice_spared_the_page() -> None:
    """It came before anybody was paged, and was followed in time: nobody waits for a page that never comes."""
    async with server(lambda _: asyncio.sleep(0, web.json_response({}))) as control:
        tale, _ = story(control.url)
        tale.hear(effects())
        assert not tale.ended.is_set(), "nothing happened yet"
        tale.hear(effects(advice=(advice(),)))
        assert not tale.ended.is_set(), "its advice has no verdict yet"
        tale.hear(effects(advice=(advice("superseded"), advice())))
        assert not tale.ended.is_set(), "another took its place"
        tale.hear(effects(advice=(advice("kept"),)))
    assert tale.ended.is_set()


def test_the_demo_expects_a_new_replica_when_the_operator_has_one() -> None:
    """Advice is judged after its cold start: shorter than the operator takes, and it is missed for nothing."""
    config = parse_config(FILE.read_text(encoding="utf-8"), FILE.name)
    assert config.advice.cold_start_seconds == READING_SECONDS + SCENARIOS["demo"].cold_start_seconds


async def test_an_alert_of_a_target_names_it_when_it_ends() -> None:
    tale, said = story()
    gone = page(ends_at=EPOCH + 119, alertname="EngineUnreachable", target="vllm-1", slo="")
    labels = tuple((key, value) for key, value in gone.labels if key not in ("slo", "tier"))
    tale.hear(effects(alerts=(Alert(labels, gone.annotations, gone.starts_at_seconds, gone.ends_at_seconds),)))
    assert said[0].endswith("resolved: EngineUnreachable of vllm-1, the page of 2m ago")


def test_the_load_and_new_replicas_are_told_once() -> None:
    tale, said = story()
    for seen in (state(), state(), state(40.0), state(40.0, (0, 1, 2)), state(40.0, (0, 1, 2, 3))):
        tale.see(seen)
    assert [line.partition("] ")[2] for line in said] == [
        "the load goes from 8 to 40 requests a second",
        "replica 3 serves now: 3 in all",
        "replica 4 serves now: 4 in all",
    ]
    tale, said = story()
    tale.see(state())
    tale.see(state(ready=(0, 1, 2, 3)))
    assert said[0].endswith("replicas 3 and 4 serve now: 4 in all")
    tale, said = story()
    tale.see(state(ready=(0,)))
    tale.see(state(ready=(0, 1, 2, 3)))
    assert said[0].endswith("replicas 2, 3 and 4 serve now: 4 in all")
    assert said[0].startswith("[ 8.0 min ")


def test_a_machine_that_cannot_keep_up_is_told() -> None:
    tale, said = story()
    tale.see(state(lag=9.0))
    assert said == []
    tale.see(state(lag=40.0))
    assert "WARNING: this machine cannot keep up at 1000x: the simulator was 40 s of the story late" in said[0]
    assert said[0].endswith("try --speed 250")


def test_ticks_that_come_late_are_the_agents_lag() -> None:
    """Ticks lie 5 s apart; 35 s between two are 30 s too many."""
    tale, said = story()
    tale.hear(effects(at=EPOCH + 100.0))
    tale.hear(effects(at=EPOCH + 135.0))
    tale.see(state())
    assert "the agent was 30 s of the story late" in said[0]


def test_every_verdict_has_words() -> None:
    assert set(VERDICTS) == {"kept", "missed", "not_applied", "unknown", "withdrawn", "confounded", "superseded"}


async def test_an_operator_who_cannot_scale_says_so() -> None:
    tale, said = story()
    tale.hear(effects(advice=(advice(),)))
    await until(lambda: any("could not scale" in line for line in said), "it was told")
    await asyncio.sleep(0)
