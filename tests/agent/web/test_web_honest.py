"""The page claims no more than is known: old figures are called old, interpolated ones no facts, codes are words."""

import re
from dataclasses import replace

import fake_view
import pytest
from browser import Page
from fake_signals import bucket, overloaded
from fake_view import FakeView
from fake_world import NOW_SECONDS, slos
from serving import Serve
from test_web_page import opened

from agent.model import Alert, Latency, SloStatus
from agent.web.paths import PATHS

pytestmark = pytest.mark.real


def showing(*statuses: SloStatus, alerts: tuple[Alert, ...] = ()) -> FakeView:
    view = fake_view.calm()
    view.snapshot_now = replace(view.snapshot_now, slos=statuses, alerts=alerts)
    return view


async def test_without_data_a_card_is_as_of_its_last_event_and_not_green(serve: Serve, page: Page) -> None:
    gone = replace(slos()[1], state="no_data", last_event_at_seconds=NOW_SECONDS - 240)
    await opened(serve, page, showing(gone))
    card = await page.text("#slos article")
    assert "As of the last event, 4 min ago" in card
    assert "within budget" not in card
    assert await page.ask("document.querySelectorAll('#slos .good').length") == 0


async def test_figures_of_a_target_that_is_down_are_from_before_it_went(serve: Serve, page: Page) -> None:
    view = fake_view.calm()
    busy, idle = view.snapshot_now.targets
    gone = replace(busy, health="down", last_seen_seconds=NOW_SECONDS - 40, last_outcome="connect_refused")
    view.snapshot_now = replace(view.snapshot_now, targets=(gone, idle))
    await opened(serve, page, view)
    block = await page.text("[data-key='target vllm-0']")
    assert "from before it went, 40 s ago" in block
    assert "nothing listens there" in block
    assert "answer: ok" in await page.text("[data-key='target vllm-1']")
    assert "unknown\nlast 127" in block.replace("Waiting\n", "")  # a queue now is not known
    assert "vllm-0 no longer answers: its part is from before" in await page.text("[data-key=total]")
    await page.ask("document.querySelector(\"[data-key='target vllm-0']\").open = false")
    assert "before it went" in await page.text("[data-key='target vllm-0'] summary")


async def test_an_interpolated_percentile_is_softer_than_its_bounds(serve: Serve, page: Page) -> None:
    view = fake_view.calm()
    lowest = Latency(
        bucket(0, 0.15, 0.3, 9), bucket(0.3, 0.41, 0.5, 9), replace(bucket(0.7, 0.7, 0.7, 9)), None, 0.2, 9
    )
    view.by_target = {"vllm-0": replace(overloaded(), queue_seconds=lowest)}
    await opened(serve, page, view)
    row = "document.querySelector(\"[data-key='target vllm-0'] .latency tbody\").rows[4].cells"
    cells = [
        [str(part).replace("\u202f", " ") for part in parts]
        for parts in await page.ask(f"[...{row}].slice(1).map((c) => [...c.children].map((s) => s.textContent))")
    ]
    assert cells == [["below 300 ms"], ["300 ms to 500 ms", "about 410 ms"], ["700 ms"], ["unknown"]]
    assert "150" not in str(cells)


async def test_the_tile_shows_bounds_too(serve: Serve, page: Page) -> None:
    view = fake_view.calm()
    ttft = replace(overloaded().ttft_seconds, p99=bucket(0, 0.15, 0.3, 9))
    view.total = replace(overloaded(), ttft_seconds=ttft)
    await opened(serve, page, view)
    tile = await page.text("#sparks [data-key='TTFT p99']")
    assert "below 300 ms" in tile
    assert "150" not in tile
    assert "Served" in await page.text("#sparks")


async def test_an_alert_that_waits_for_its_window_says_that_it_recovers(serve: Serve, page: Page) -> None:
    burning = slos()[0]
    rates = {14.4: (0.0, 15.2), 6: (12.0, 31.0), 3: (2.0, 2.5), 1: (0.4, 0.6)}
    burns = tuple(
        replace(b, short_rate=rates[b.pair.factor][0], long_rate=31.0, is_burning=b.pair.factor == 6)
        for b in burning.burns
    )
    labels = {"alertname": "SLOBurnRate", "severity": "page", "tier": "slow", "slo": "chat-ttft"}
    words = {"summary": "chat-ttft burns", "recommendation": "none open; see the page for the signals"}
    alert = Alert(tuple(labels.items()), words, NOW_SECONDS - 1200)
    await opened(serve, page, showing(replace(burning, burns=burns), alerts=(alert,)))
    told = "the last 5 min are good, the alert ends when the last 30 min are"
    assert told in await page.text("h1")
    assert told in await page.text("#alerts article")
    assert "No recommendation is open." in await page.text("#alerts article")
    assert await page.text("#slos .pill") == "recovering"


async def test_what_was_watched_is_told_beside_the_whole_period(serve: Serve, page: Page) -> None:
    """0.03 % of 30 days were watched; 14.9 times their share of the budget is spent."""
    status = slos()[1]
    budget = replace(status.budget, remaining_ratio=0.9955, observed_remaining_ratio=-13.9, coverage_ratio=0.0003)
    await opened(serve, page, showing(replace(status, budget=budget)))
    card = await page.text("#slos article")
    assert "Of what was watched: overspent, 14.9x the budget" in card
    assert "0.03 % of the period" in card


async def test_a_sliver_of_the_period_is_not_rounded_to_nothing(serve: Serve, page: Page) -> None:
    status = slos()[1]
    await opened(serve, page, showing(replace(status, budget=replace(status.budget, coverage_ratio=0.000004))))
    assert "under 0.01 % of the period" in await page.text("#slos article")


async def test_alerts_and_advice_have_their_time_of_day(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.burning())
    for place in ("#alerts header", "#advice header", "#canaries tbody td", "#slos article > .fine"):
        assert ":" in (await page.text(place))[-60:], place
    times = "[...document.querySelectorAll('time')]"
    assert await page.ask(f"{times}.every((t) => t.dateTime && t.title)")


async def test_the_footer_names_every_path(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.calm())
    named = re.findall(r"/[a-z0-9/-]*", await page.text("body > footer"))
    assert set(PATHS) - {"/"} <= set(named)


async def test_codes_are_words_with_the_code_in_small_print(serve: Serve, page: Page) -> None:
    view = fake_view.burning()
    detail = "connect_refused: 10.0.0.1 refuses"
    alert = replace(
        view.snapshot_now.alerts[1],
        annotations={"summary": "vllm-1 is gone", "description": f"no reading for 93 s: {detail}", "cause": detail},
    )
    view.snapshot_now = replace(view.snapshot_now, alerts=(alert,))
    await opened(serve, page, view)
    canaries = await page.text("#canaries [data-key=failures]")
    assert "a head, but no token within the first-token timeout" in canaries
    assert "HTTP 503" in canaries
    said = await page.text("#alerts article")
    assert said.count("10.0.0.1") == 1  # the cause stands in the description: once is enough
    assert "nothing listens there (connect_refused): 10.0.0.1 refuses" in said
    assert "nothing listens there (connect_refused)" in await page.text("[data-key='target lmcache-0']")


async def test_confidence_and_limit_are_words(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.burning())
    advice = await page.text("#advice")
    assert "fair (72 %)" in advice
    assert "waiting: more requests arrive than are served" in advice


async def test_what_this_host_cannot_tell_is_one_line_with_its_reasons(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.burning())
    idle = await page.text("[data-key='target vllm-1']")
    assert "GPU busy, power: no GPU readings" in idle
    assert "External hits: no KV connector seen" in idle
    assert "Tokens per dollar: no GPU price in the config" in idle
    assert await page.ask("document.querySelectorAll(\"[data-key='target vllm-1'] dl.keys > div\").length") == 12


@pytest.mark.parametrize("width", [320, 400, 500, 600])
async def test_no_table_is_cut(serve: Serve, page: Page, width: int) -> None:
    await opened(serve, page, fake_view.burning(), width)
    boxes = "[...document.querySelectorAll('#advice .scroll, #canaries .scroll')]"
    assert await page.ask(f"{boxes}.every((box) => box.scrollWidth <= box.clientWidth)")
    named = "getComputedStyle(document.querySelector('#advice .spread tbody td.num'), '::before').content"
    assert await page.ask(named) == '"TTFT p95"'


@pytest.mark.parametrize("width", [400, 1000, 1400])
async def test_no_percentile_is_cut(serve: Serve, page: Page, width: int) -> None:
    await opened(serve, page, fake_view.burning(), width)
    boxes = "[...document.querySelectorAll('.scroll')]"
    assert await page.ask(f"{boxes}.every((box) => box.scrollWidth <= box.clientWidth)")


async def test_the_strip_begins_where_the_log_is_complete(serve: Serve, page: Page) -> None:
    """60 good results are kept, over the last 10 min; a failure of an hour ago stands alone and draws no gap."""
    view = fake_view.burning()
    good = next(probe for probe in view.probe_results if probe.is_ok)
    bad = next(probe for probe in view.probe_results if not probe.is_ok)
    view.probe_results = [replace(good, at_seconds=NOW_SECONDS - 10 * number) for number in range(60)]
    view.probe_results.append(replace(bad, at_seconds=NOW_SECONDS - 4000))
    await opened(serve, page, view)
    assert await page.ask("document.querySelectorAll('#canaries rect.canary').length") == 60
    assert "Older results were dropped from the log, which is complete from" in await page.text("#canaries")
    assert "1 h 6 min ago" in await page.text("#canaries [data-key=failures]")


async def test_the_key_of_the_strip_has_the_colours_of_its_bars(serve: Serve, page: Page) -> None:
    await opened(serve, page, fake_view.burning())
    key = "getComputedStyle(document.querySelector('.key.idle'), '::before')"
    bar = "getComputedStyle(document.querySelector('rect.canary.idle'))"
    assert await page.ask(f"{key}.backgroundColor === {bar}.fill && {key}.opacity === {bar}.opacity")
