"""How a target looks: up, stale, down, stuck or unknown. Slow is not stuck, and idle is neither."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from fake_engine import FakeEngine, no_page, page_of

from agent.alerts.health import target_status
from agent.model import TargetStatus
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.windows import Windows
from probes.sample import ProbeResult, Reading, Sample

PLAN = Plan(scrape_interval_seconds=10, down_after_seconds=30, stuck_after_seconds=30)
FACTS = TargetFacts("", "aggregated", None)


def status(windows: Windows, now: float, plan: Plan = PLAN) -> TargetStatus:
    return target_status("vllm-0", FACTS, plan, windows, now)


def watched(*readings: Reading) -> Windows:
    windows = Windows()
    for reading in readings:
        windows.take(reading)
    return windows


def working(engine: FakeEngine, steps: int, work: Callable[[], None] = lambda: None) -> Windows:
    """A page every 10 s from 10 s on."""
    windows = Windows()
    for step in range(1, steps + 1):
        windows.take(engine.reading(10.0 * step))
        work()
    return windows


def test_never_seen_is_unknown() -> None:
    found = status(Windows(), 100)
    assert (found.health, found.last_seen_seconds) == ("unknown", None)


@pytest.mark.parametrize(
    ("now", "health"), [(10, "up"), (35, "up"), (36, "stale"), (39, "stale"), (40, "down"), (500, "down")]
)
def test_a_page_that_fails_is_stale_and_then_down(now: float, health: str) -> None:
    """Good at 10 s, refused since: down 30 s after the last good page."""
    looks = [no_page(at, outcome="connect_refused") for at in range(20, int(now) + 1, 10)]
    found = status(watched(FakeEngine().reading(10), *looks), now)
    assert found.health == health
    assert found.last_seen_seconds == 10
    if health == "down":
        assert "connect_refused" in found.detail


def test_a_target_that_never_answered_is_down_after_its_time() -> None:
    windows = watched(no_page(10), no_page(20), no_page(30), no_page(40))
    assert [status(windows, now).health for now in (39, 40)] == ["stale", "down"]


def test_without_looks_a_target_is_stale_and_never_down() -> None:
    """We did not look: that says nothing about the target."""
    assert status(watched(FakeEngine().reading(10)), 1000).health == "stale"


def test_a_clock_set_back_is_told() -> None:
    found = status(watched(FakeEngine().reading(10_000)), 6_400)
    assert found.health == "stale"
    assert "clock" in found.detail


def test_requests_inside_and_no_progress_is_stuck() -> None:
    engine = FakeEngine(running=4)
    windows = working(engine, 4)
    assert status(windows, 40).health == "stuck"
    assert "4 requests running and made no step in 30 s" in status(windows, 40).detail
    assert status(working(engine, 3), 30).health == "up"


def test_slow_is_not_stuck() -> None:
    """One step in half a minute is slow."""
    engine = FakeEngine(running=4)
    windows = working(engine, 3)
    engine.generated += 1
    windows.take(engine.reading(40))
    assert status(windows, 40).health == "up"


def test_idle_is_not_stuck() -> None:
    assert status(working(FakeEngine(running=0), 60), 600).health == "up"


def test_idle_and_then_a_request_is_not_stuck_at_once() -> None:
    """Nothing moved for an hour because nothing was asked; a request that came just now proves nothing."""
    engine = FakeEngine()
    windows = working(engine, 100)
    engine.running = 1
    windows.take(engine.reading(1010))
    assert status(windows, 1010).health == "up"


def test_a_page_that_does_not_tell_of_progress_is_not_stuck() -> None:
    windows = Windows()
    for step in range(1, 20):
        gauge = Sample("requests_running", "gauge", "0", "m", 4)
        windows.take(Reading("vllm-0", "vllm", 10.0 * step, samples=(gauge,)))
    assert status(windows, 190).health == "up"


def test_one_stuck_engine_of_several_is_enough() -> None:
    well, stuck, windows = FakeEngine(running=4), FakeEngine(engine="1", running=2), Windows()
    for step in range(1, 6):
        windows.take(page_of([well, stuck], 10.0 * step))
        well.generated += 100
    assert "engine 1 has 2 requests running" in status(windows, 50).detail


def test_an_engine_that_left_the_page_is_not_stuck() -> None:
    well, gone, windows = FakeEngine(running=4), FakeEngine(engine="1", running=2), Windows()
    for step in range(1, 20):
        windows.take(page_of([well, gone] if step < 8 else [well], 10.0 * step))
        well.generated += 100
        gone.generated += 100 if step < 3 else 0
        if step == 7:
            assert status(windows, 70).health == "stuck"
    assert status(windows, 190).health == "up"


@pytest.mark.parametrize(
    ("outcomes", "progress", "health"),
    [
        (("first_token_timeout", "head_timeout"), False, "stuck"),
        (("first_token_timeout", "head_timeout"), True, "up"),
        (("ok", "head_timeout"), False, "up"),
        (("server_error", "server_error"), False, "up"),
        (("head_timeout",), False, "up"),
    ],
)
def test_canaries_without_a_token_and_no_progress_are_stuck(
    outcomes: tuple[str, ...],
    progress: bool,  # noqa: FBT001  a column
    health: str,
) -> None:
    """The engine loop hangs before it takes requests in: nothing runs, and canaries get no token."""
    engine, windows = FakeEngine(), Windows()
    for step in range(1, 10):
        windows.take(engine.reading(10.0 * step))
        engine.generated += 5 if progress else 0
    for number, outcome in enumerate(outcomes):
        windows.take_probe(ProbeResult("vllm-0", "chat", outcome, 30.0 + 30 * number, 50.0 + 30 * number))
    assert status(windows, 90).health == health


def sleeping(engine: FakeEngine, at: float, state: str = "weights_offloaded") -> Reading:
    """Its page, as vLLM writes it when somebody has put it to sleep."""
    page = engine.reading(at)
    states = {"awake": 0.0, "weights_offloaded": 0.0, "discard_all": 0.0, state: 1.0}
    told = (Sample("engine_sleep_state", "gauge", engine.engine, "m", value, label) for label, value in states.items())
    return replace(page, samples=(*page.samples, *told))


def test_an_engine_that_sleeps_is_not_stuck_and_its_words_say_so() -> None:
    """Requests wait in it and canaries get no token, for as long as it sleeps; woken, it has its time to go on."""
    engine, windows = FakeEngine(waiting=3), Windows()
    for step in range(1, 20):
        windows.take(sleeping(engine, 10.0 * step))
        if step in (3, 6):
            windows.take_probe(ProbeResult("vllm-0", "chat", "first_token_timeout", 10.0 * step, 10.0 * step + 9))
        found = status(windows, 10.0 * step)
        words = "engine 0 sleeps (weights_offloaded): it serves nobody until it is woken"
        assert (found.health, found.detail) == ("up", words)


def test_an_engine_that_is_awake_and_says_so_can_be_stuck() -> None:
    engine, windows = FakeEngine(running=3), Windows()
    for step in range(1, 6):
        windows.take(sleeping(engine, 10.0 * step, state="awake"))
    assert status(windows, 50).health == "stuck"


def test_an_engine_whose_requests_all_wait_for_a_cache_is_stuck_without_any_canary() -> None:
    """As a real vLLM looked whose cache server was killed: nothing runs, two requests are deferred, no step."""
    engine, windows = FakeEngine(waiting=2), Windows()
    deferred = Sample("requests_waiting_by_reason", "gauge", "0", "m", 2.0, "deferred")
    for step in range(1, 6):
        page = engine.reading(10.0 * step)
        windows.take(replace(page, samples=(*page.samples, deferred)))
    found = status(windows, 50)
    assert found.health == "stuck"
    assert "2 waiting (2 deferred: for KV from a cache or another instance) and made no step in 40 s" in found.detail
