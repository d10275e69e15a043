"""A memory that is gone comes back out of a Prometheus: the counts, and the counters to go on from."""

import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[1] / "probes" / "prometheus"))

from fake_prometheus import FakePrometheus

from agent.config import Config
from agent.config_file import parse_config
from agent.errors import ConfigError
from agent.planning import all_targets, make_plan
from agent.rehydrating import rehydrated
from agent.tick import Memory, tick
from probes.page import SystemPage

Serve = Callable[..., Awaitable[Any]]
T0, HOUR, DAY = 1_800_000_000.0, 3_600.0, 86_400.0
SLO = "slos: [{name: s, sli: ttft, threshold_seconds: 2.5, objective_ratio: 0.99, period_seconds: 172800}]\n"


async def server_of(serve: Serve, days: float, token: str = "", now: float = T0) -> str:
    """An engine of one request a second, each fourth too slow, scraped each minute for so many days up to now."""
    fake, own = FakePrometheus(token=token), {"engine": "0", "model_name": "m"}
    times = [now - days * DAY + 60 * n for n in range(int(days * DAY / 60) + 1)]
    since = now - 20 * DAY
    fake.add("vllm:generation_tokens_total", [(at, at - since) for at in times], **own)
    fake.add("vllm:time_to_first_token_seconds_bucket", [(at, 0.75 * (at - since)) for at in times], **own, le="2.5")
    fake.add("vllm:time_to_first_token_seconds_bucket", [(at, at - since) for at in times], **own, le="+Inf")
    fake.add("process_start_time_seconds", [(at, since) for at in times])
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    return str((await serve(app)).make_url("")).rstrip("/")


def config_of(url: str) -> Config:
    text = f"{SLO}prometheus: {{url: '{url}'}}\nstate: {{path: s.db, rehydrate: true}}\ncanaries: []\n"
    return parse_config(text + "targets: [{name: mine, url: 'http://vllm-0:8000'}]\n", "c")


async def after(config: Config, memory: Memory, now: float = T0) -> Memory:
    plan = make_plan(config, all_targets(config, ()))
    return await rehydrated(memory, config, plan, config.targets, now)


async def test_the_events_of_the_period_are_back_and_nothing_is_lost(aiohttp_server: Serve) -> None:
    """Two days at one a second; older ones in steps of five minutes, and none twice where the two readings meet."""
    config = config_of(await server_of(aiohttp_server, days=2.5))
    memory = await after(config, Memory(lost_at_seconds=T0))
    counts = memory.windows.events["s"].total()
    assert counts.total == pytest.approx(2 * DAY, abs=600)
    assert counts.bad / counts.total == pytest.approx(0.25)
    assert memory.lost_at_seconds is None
    status = tick(make_plan(config, config.targets), memory, T0 + 1).snapshot.slos[0]
    assert status.budget.remaining_ratio == pytest.approx(1 - 25, rel=1e-3)
    assert {burn.is_burning for burn in status.burns} == {True}


async def test_the_next_page_goes_on_from_the_last_scrape(aiohttp_server: Serve) -> None:
    memory = await after(config := config_of(await server_of(aiohttp_server, days=1)), Memory())
    before = memory.windows.events["s"].total()
    labels, served = 'engine="0",model_name="m"', 20 * DAY + 10
    lines = [
        f"vllm:generation_tokens_total{{{labels}}} {served}",
        f'vllm:time_to_first_token_seconds_bucket{{{labels},le="2.5"}} {0.75 * 20 * DAY + 10}',
        f'vllm:time_to_first_token_seconds_bucket{{{labels},le="+Inf"}} {served}',
        f"process_start_time_seconds {T0 - 20 * DAY}",
    ]
    memory.windows.take(SystemPage("vllm").read("\n".join(lines) + "\n", "mine", T0 + 10))
    tick(make_plan(config, config.targets), memory, T0 + 10)
    now = memory.windows.events["s"].total()
    assert (now.good - before.good, now.bad - before.bad) == (10.0, 0.0)


async def test_a_history_shorter_than_the_period_makes_no_lost_memory_whole(aiohttp_server: Serve) -> None:
    memory = await after(config_of(await server_of(aiohttp_server, days=1)), Memory(lost_at_seconds=T0))
    assert memory.lost_at_seconds == T0
    assert memory.windows.events["s"].coverage_ratio(2 * DAY, T0) == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize(("hours", "is_whole"), [(24.2, False), (26.0, True)])
async def test_a_calendar_period_is_as_long_as_it_really_is(
    aiohttp_server: Serve, hours: float, *, is_whole: bool
) -> None:
    """The day on which summer time ends has 25 hours: at its end a history of one day is not all of it."""
    now = datetime.fromisoformat("2026-10-25T23:30:00+01:00").timestamp()
    config = config_of(await server_of(aiohttp_server, hours / 24, now=now))
    slo = config.slos[0].model_copy(update={"calendar": "day", "time_zone": "Europe/Berlin", "period_seconds": DAY})
    memory = await after(config.model_copy(update={"slos": [slo]}), Memory(lost_at_seconds=now), now)
    assert memory.windows.events["s"].total().total == pytest.approx(min(24.5, hours) * HOUR, abs=600)
    assert (memory.lost_at_seconds is None) == is_whole


async def test_a_prometheus_that_does_not_answer_leaves_the_memory_as_it_was(
    aiohttp_server: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    first = Memory()
    assert await after(config_of("http://127.0.0.1:1"), first) is first
    assert await after(config_of(await server_of(aiohttp_server, days=1, token="x")), first) is first
    assert caplog.text.count("state not read from prometheus") == 2


async def test_a_memory_that_is_there_is_left_alone(aiohttp_server: Serve) -> None:
    memory = Memory()
    memory.windows.events["s"].begin(T0 - 60)
    assert await after(config_of(await server_of(aiohttp_server, days=1)), memory) is memory


def test_rehydrating_needs_an_address() -> None:
    with pytest.raises(ConfigError, match=r"state.rehydrate is true, but there is no prometheus.url"):
        parse_config(f"{SLO}state: {{path: s.db, rehydrate: true}}\ntargets: [{{name: a, url: 'http://a:1'}}]", "c")
