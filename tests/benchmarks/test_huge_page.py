"""What a huge page of one bad target does to everything else on the loop.

Counted in CPU seconds of this process, in which other work on the machine does not show: while the page is read, how
much of it is done at most before the loop has its turn again.
"""

# ruff: noqa: T201 - a benchmark prints

import asyncio
import time

import aiohttp
import pytest
from aiohttp import web

from agent.windows import Windows
from probes.clock import SystemClock
from probes.scrape import PageTarget, Scraper

BEAT_SECONDS = 0.005
LINES = 130_000
PAGES = {
    "models in a label": "".join(
        f'vllm:generation_tokens_total{{engine="0",model_name="m{n}"}} 5\n'
        f'vllm:num_requests_running{{engine="0",model_name="m{n}"}} 1\n'
        for n in range(LINES)
    ),
    "series that nobody needs": "".join(f'http_requests_total{{handler="/{n}"}} 1\n' for n in range(4 * LINES)),
    "buckets": "".join(
        f'vllm:time_to_first_token_seconds_bucket{{engine="0",model_name="m",le="{n / 7}"}} {n}\n' for n in range(LINES)
    ),
}


@pytest.mark.parametrize("what", PAGES)
async def test_a_huge_page_holds_the_loop_up_for_a_small_part_of_its_cost(what: str) -> None:
    """Reading it takes seconds; a look at another target waits for a seventh of that at most."""
    app = web.Application()
    body = PAGES[what].encode()

    async def page(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="text/plain")

    app.router.add_get("/metrics", page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    stalls: list[float] = []

    async def beat() -> None:
        while True:
            began = time.process_time()
            await asyncio.sleep(BEAT_SECONDS)
            stalls.append(time.process_time() - began)

    beating = asyncio.create_task(beat())
    try:
        async with aiohttp.ClientSession() as session:
            scraper = Scraper(PageTarget("a", url, "vllm", 60, 30_000_000, {}), session, SystemClock())
            windows, began = Windows(), time.process_time()
            for _ in range(3):
                windows.take((await scraper.scrape()).reading)
                await asyncio.sleep(2 * BEAT_SECONDS)
            spent = (time.process_time() - began) / 3
    finally:
        beating.cancel()
        await runner.cleanup()
    print(f"\n{what}, {len(PAGES[what]):,} bytes: {spent:.2f} CPU s a page, at most {max(stalls):.3f} s of it at once")
    assert max(stalls) < 0.15 * spent
