"""The page in a real browser: what a person reads there, that nothing breaks it, and that it fits its screen."""

from collections.abc import Callable
from dataclasses import replace

import fake_view
import pytest
from browser import Page
from fake_actions import FakeActions
from fake_view import FakeView
from fake_world import NOW_SECONDS
from serving import Serve

pytestmark = pytest.mark.real


async def opened(
    serve: Serve, page: Page, view: FakeView, width: int = 1400, scheme: str = "light", **options: object
) -> Page:
    client = await serve(view, FakeActions(), **options)
    await page.open(str(client.make_url("/")), width, scheme)
    return page


async def test_the_verdict_is_the_first_thing_to_read(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.burning())
    verdict = "1 SLO is burning its budget: chat-ttft, 15x; paged 2 min ago"
    assert await page.text("h1") == verdict
    assert await page.ask("document.title") == f"(!) {verdict}"
    assert await page.ask("document.querySelector('h1').getBoundingClientRect().bottom") < 200
    assert "vllm-1 is stuck" in await page.text("#verdict ul")
    assert page.complaints == []


async def test_a_calm_night_says_so(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.calm())
    assert await page.text("h1") == "All 3 SLOs are kept"
    assert await page.ask("document.querySelector('#verdict').classList.contains('good')")
    assert await page.text("#alerts") == "Nothing is firing."  # the watchdog is no news
    assert (await page.text("#advice")).splitlines()[0] == "No change is recommended."
    assert await page.ask("document.querySelector('#note').hidden")


async def test_before_the_first_tick_nothing_is_claimed(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.starting())
    assert await page.text("h1") == "Starting: nothing has been evaluated yet"
    assert "No targets are watched" in await page.text("#signals")
    assert page.complaints == []


async def test_an_slo_card_shows_the_arithmetic(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.burning())
    card = await page.text("#slos article")
    for said in ("chat-ttft", "99 % of first tokens come within 2.5 s, in any 30 d", "41.3 % left", "17.8x", "15.2x"):
        assert said in card
    for said in ("14.4x", "burning, pages", "7,020 bad of 1,211,463"):
        assert said in card
    counts = await page.ask("document.querySelector('#slos article .counts table').textContent")
    assert "3,150" in str(counts)


async def test_an_slo_of_slices_promises_slices(serve: Serve, page: Page) -> None:
    """99 % of first tokens is not what it promises: 99 % of minutes is, each with 95 % of its first tokens."""
    world = fake_view.burning()
    state = world.snapshot()
    first, *others = state.slos
    slo = replace(first.slo, slice_seconds=60.0, slice_good_ratio=0.95)
    sliced = replace(first, slo=slo, budget=replace(first.budget, empty_slices=17.0))
    await opened(serve, page, replace(world, snapshot_now=replace(state, slos=(sliced, *others))))
    card = await page.text("#slos article")
    assert "99 % of all 60 s slices are good (95 % of first tokens come within 2.5 s), in any 30 d" in card
    assert "17 slices had no event, or nobody told of them" in card


@pytest.mark.parametrize(
    ("slo", "pill", "budget"),
    [
        ("chat-availability", "kept", "87.1 % left"),
        ("chat-tpot", "no traffic", "unknown"),
        ("batch-e2e", "not enough data yet", "100 % left"),
        ("search-ttft", "no data", "unknown"),
        ("summaries-e2e", "budget spent", "overspent by 28.4 %"),
    ],
)
async def test_every_state_has_its_word(serve: Serve, page: Page, slo: str, pill: str, budget: str) -> None:
    await opened(serve, page, fake_view.burning())
    assert await page.text(f"[data-key='{slo}'] .pill") == pill
    assert budget in await page.text(f"[data-key='{slo}'] .budget-line")


async def test_an_alert_explains_itself_and_links_out_safely(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.burning())
    alerts = await page.text("#alerts")
    for said in ("Requests queue: 127 wait on vllm-0", "Scale chat from 1 to 3 replicas", "2 min ago", "41 %"):
        assert said in alerts
    links = "[...document.querySelectorAll('#alerts a')].map((a) => [a.href, a.rel])"
    assert await page.ask(links) == [
        ["https://runbooks.example/chat-ttft", "noopener noreferrer"],
        ["https://grafana.example/d/slo", "noopener noreferrer"],
    ]


async def test_advice_shows_what_it_stands_on_and_the_way_back(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.burning())
    advice = await page.text("#advice")
    for said in (
        "1 → 3 (2 to 4)",
        "72 %",
        "Requests waiting",
        "88.4",
        "External cache hit",
        "$17.25 /h",
        "due in 10 min",
    ):
        assert said in advice
    for said in ("Burn rate, chat-ttft", "15.2x", "the queue grows", "Requests waiting in 10 min", "940"):
        assert said in advice
    assert "kubectl scale deployment/chat --replicas=1" in advice
    earlier = await page.ask("document.querySelector('#advice details').textContent")
    assert "it was not applied" in str(earlier)


async def test_signals_carry_bounds_and_units_and_unknown_is_called_unknown(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.burning())
    busy = await page.text("[data-key='target vllm-0']")
    for said in ("6.90 s", "5 s to 7.5 s", "over 80 s", "no upper bound", "17.1 ms", "17.8 % to 36.8 %", "661 W"):
        assert said in busy
    idle = await page.text("[data-key='target vllm-1']")
    assert "0 /s" in idle  # measured
    ttft_row = "document.querySelector(\"[data-key='target vllm-1'] tbody tr\").innerText"
    assert str(await page.ask(ttft_row)).split() == ["TTFT", "unknown", "unknown", "unknown", "unknown"]
    assert "every figure is unknown" in await page.text("[data-key='target lmcache-0']")


async def test_of_many_targets_the_sick_stand_first_and_the_healthy_are_folded_to_a_line(
    serve: Serve, page: Page
) -> None:
    view = fake_view.burning()
    crowd = [replace(view.snapshot_now.targets[0], name=f"vllm-{number}") for number in range(10, 14)]
    view.snapshot_now = replace(view.snapshot_now, targets=(*crowd, *view.snapshot_now.targets))
    await opened(serve, page, view)
    blocks = (
        "[...document.querySelectorAll('#signals details')].map((d) => [d.querySelector('h3').textContent, d.open])"
    )
    shown = await page.ask(blocks)
    assert shown == [
        ["All targets", True],
        ["vllm-1", True],
        ["vllm-2", True],
        ["lmcache-0", True],
        *([f"vllm-{number}", False] for number in (10, 11, 12, 13, 0)),
    ]
    assert "TTFT p99 over 80 s, 17.4 /s, 127 waiting" in await page.text("[data-key='target vllm-0'] summary")


async def test_canaries_that_failed_are_kept_apart_from_those_that_did_not_run(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.burning())
    failures = await page.text("#canaries [data-key=failures]")
    assert "first_token_timeout" in failures
    assert "HTTP 503: overloaded" in failures
    assert "missed" not in failures
    assert "1 of the last 40 were not run (the last run had not ended)." in await page.text("#canaries")
    assert await page.ask("document.querySelectorAll('#canaries rect.canary').length") == 40
    assert await page.ask("document.querySelectorAll('#canaries rect.canary.bad').length") == 4


async def test_nothing_unknown_leaks_as_a_programmers_word(serve: Serve, page: Page) -> None:
    for view in (fake_view.burning(), fake_view.starting()):
        await opened(serve, page, view)
        text = str(await page.ask("document.body.textContent"))
        assert not [word for word in ("null", "undefined", "NaN", "Infinity", "[object") if word in text]


async def test_the_window_can_be_chosen_by_keyboard(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.burning())
    await page.ask("document.querySelector('input[value=\"300\"]').focus()")
    for kind in ("keyDown", "keyUp"):
        await page.call(
            "Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39
        )
    asked = "performance.getEntriesByType('resource').some((e) => e.name.endsWith('window_seconds=3600'))"
    await page.until(asked)


async def test_a_term_explains_itself_on_focus_and_escape_closes_it(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.burning())
    await page.ask("document.querySelector('#sparks .term').focus()")
    assert "Time to first token" in await page.text("#tip")
    assert await page.ask("document.activeElement.getAttribute('aria-describedby')") == "tip"
    await page.call("Input.dispatchKeyEvent", type="keyDown", key="Escape", code="Escape", windowsVirtualKeyCode=27)
    assert await page.ask("document.querySelector('#tip').hidden")


async def test_what_a_person_opened_and_focused_survives_new_data(serve: Serve, page: Page) -> None:
    view = fake_view.burning()
    await opened(serve, page, view)
    await page.ask("document.querySelector('#slos details').open = true")
    await page.ask("document.querySelector('#signals .term').focus()")
    view.clock_seconds = NOW_SECONDS + 91
    await page.until("document.querySelector('h1').textContent.includes('not evaluated')")
    assert await page.ask("document.querySelector('#slos details').open")
    assert await page.ask("document.activeElement.matches('#signals .term')")


async def test_it_says_when_the_agent_no_longer_answers(serve: Serve, page: Page) -> None:
    client = await serve(fake_view.calm())
    await page.open(str(client.make_url("/")))
    assert await page.text("#fresh") == "live"
    await client.server.close()
    await page.until("!document.querySelector('#stale').hidden")
    assert "The agent has not answered for" in await page.text("#stale")
    assert await page.text("#fresh") == "not live"
    assert await page.text("h1") == "All 3 SLOs are kept"  # kept on show, marked as old


async def test_hostile_names_are_text_and_nothing_else(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.hostile(), note=fake_view.EVIL)
    assert await page.ask("window.hacked") is None
    assert await page.ask("document.querySelectorAll('script').length") == 1  # our own module
    assert await page.ask("document.querySelectorAll('img').length") == 0
    assert await page.ask("document.querySelectorAll('a[href^=javascript]').length") == 0
    assert fake_view.EVIL in await page.text("h1")
    assert await page.text("#note") == fake_view.EVIL
    assert page.complaints == []


@pytest.mark.parametrize("view", [fake_view.burning, fake_view.hostile, fake_view.starting])
@pytest.mark.parametrize("width", [320, 400, 768, 1400])
async def test_no_screen_scrolls_sideways(serve: Serve, page: Page, view: Callable[[], FakeView], width: int) -> None:
    await opened(serve, page, view(), width)
    assert await page.ask("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_text_keeps_its_contrast(serve: Serve, page: Page, scheme: str) -> None:
    """WCAG 2.1 AA: at least 4.5 between text and what lies behind it."""
    await opened(serve, page, fake_view.burning(), scheme=scheme)
    pairs = [("ink", "bg"), ("muted", "bg"), ("muted", "card"), ("accent", "card"), ("bg", "ink")]
    pairs += [(level, f"{level}-bg") for level in ("good", "watch", "bad", "unknown", "accent")]
    style = "getComputedStyle(document.documentElement)"
    for front, back in pairs:
        colours = [str(await page.ask(f"{style}.getPropertyValue('--{name}').trim()")) for name in (front, back)]
        assert contrast(*colours) >= 4.5, (scheme, front, back)


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
