"""One look at a page over real sockets: whatever the server does, an outcome and nothing worse."""

import asyncio
import gzip
import logging
import socket
import time
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest
from raw_server import Answer, drips, hangs, page, raw_server, sends

from probes.clock import ScaledClock, SystemClock
from probes.scrape import PageTarget, Scraped, Scraper, fetch_page

TOKEN = "sk-made-up-secret-7"
METRICS = b"".join(
    b'vllm:%s{engine="0",model_name="m"} %d\n' % row
    for row in ((b"generation_tokens_total", 7), (b"num_requests_running", 2))
)
PLAIN = b"HTTP/1.1 200 OK\r\n"
CHUNKED = PLAIN + b"Transfer-Encoding: chunked\r\n\r\n"
SIZED = PLAIN + b"Content-Length: %d\r\n\r\n" % len(METRICS)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(trust_env=False) as opened:
        yield opened


def target(url: str, *, timeout_seconds: float = 5.0, max_bytes: int = 1_000_000) -> PageTarget:
    return PageTarget("t", url + "/metrics", "vllm", timeout_seconds, max_bytes, {"Authorization": f"Bearer {TOKEN}"})


async def look(session: aiohttp.ClientSession, at: PageTarget) -> Scraped:
    return await Scraper(at, session, SystemClock()).scrape()


def chunks(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)


HTML = b"<!DOCTYPE html><html><body>your token was Bearer " + TOKEN.encode() + b"</body></html>"
GZIPPED = gzip.compress(METRICS)
BAD_ANSWERS = [
    pytest.param(page(HTML, "Content-Type: text/html"), "html", "a web page", id="HTML that repeats the token"),
    pytest.param(page(b"\n <html>"), "html", "a web page", id="HTML as plain text"),
    pytest.param(page(b"no", status="401 Unauthorized"), "status_401", "wants a token", id="401"),
    pytest.param(page(b"no", status="403 Forbidden"), "status_403", "wants a token", id="403"),
    pytest.param(page(b"no", status="404 Not Found"), "status_404", "metrics_path", id="404"),
    pytest.param(page(b"no", status="500 Oh No"), "status_500", "HTTP 500", id="500"),
    pytest.param(page(b"", "Location: http://127.0.0.1:1/", status="302 Found"), "status_302", "redirect", id="302"),
    pytest.param(page(METRICS, length=9_999), "truncated", "before its announced length", id="cut mid-body"),
    pytest.param(sends(CHUNKED + chunks(METRICS)), "truncated", "length", id="cut chunks"),
    pytest.param(page(METRICS, "Content-Encoding: gzip"), "bad_encoding", "decompressed", id="gzip that is none"),
    pytest.param(page(GZIPPED[:30], "Content-Encoding: gzip"), None, "", id="gzip cut off"),
    pytest.param(page(b"go_goroutines 7\n"), "not_vllm", "1 series", id="another program's page"),
    pytest.param(page(b""), "not_vllm", "0 series", id="an empty page"),
    pytest.param(page(b'{"detail":"Not Found"}', "Content-Type: application/json"), "not_vllm", "series", id="JSON"),
    pytest.param(sends(), "disconnected", "without an answer", id="closes at once"),
    pytest.param(sends(b"220 smtp ready\r\n"), "not_http", "not speak HTTP", id="another protocol"),
    pytest.param(
        sends(PLAIN + b"X: " + b"y" * 100_000 + b"\r\n\r\n"), "not_http", "not speak HTTP", id="a header of 100 kB"
    ),
]


@pytest.mark.parametrize(("answer", "outcome", "words"), BAD_ANSWERS)
async def test_a_bad_answer_has_an_outcome_and_words(
    session: aiohttp.ClientSession, answer: Answer, outcome: str | None, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And the token stands neither in the words nor in a log; an unknown reading holds no numbers."""
    caplog.set_level(logging.DEBUG)
    async with raw_server(answer) as server:
        scraped = await look(session, target(server.url))
    reading = scraped.reading
    assert reading.outcome != "ok"
    assert outcome is None or reading.outcome == outcome
    assert words in reading.detail
    assert (reading.samples, reading.histograms) == ((), ())
    assert TOKEN not in reading.detail + caplog.text
    assert "authorization: bearer " + TOKEN in server.asked[0].lower()


@pytest.mark.parametrize(
    ("url", "outcome"),
    [
        pytest.param("http://127.0.0.1:{free}", "connect_refused", id="nobody listens"),
        pytest.param("http://no-such-host.invalid:8000", "dns_error", id="a name that is none"),
        pytest.param("http://", "bad_address", id="an address without a host"),
        pytest.param("http://exa mple", "dns_error", id="an address that is none"),
        pytest.param("http://a..b:80", None, id="a name with an empty part"),
    ],
)
async def test_what_cannot_be_reached_has_an_outcome(
    session: aiohttp.ClientSession, url: str, outcome: str | None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    reading = (await look(session, target(url.format(free=free)))).reading
    assert reading.outcome != "ok"
    assert outcome is None or reading.outcome == outcome


async def test_https_on_a_plain_port_is_a_tls_error(session: aiohttp.ClientSession) -> None:
    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuses, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        reading = (await look(session, target(f"https://127.0.0.1:{port}"))).reading
    assert reading.outcome == "tls_error"


@pytest.mark.parametrize("answer", [hangs, drips], ids=["hangs", "drips"])
async def test_a_server_that_does_not_finish_times_out(session: aiohttp.ClientSession, answer: Answer) -> None:
    """The limit holds for the whole look, not for each byte."""
    async with raw_server(answer) as server:
        reading = (await look(session, target(server.url, timeout_seconds=0.3))).reading
    assert (reading.outcome, reading.detail) == ("timeout", "no page within 0.3 s")
    assert reading.duration_seconds >= 0.3


async def test_an_answer_that_is_cut_by_a_reset_has_an_outcome(session: aiohttp.ClientSession) -> None:
    async def resets(writer: asyncio.StreamWriter) -> None:
        writer.write(PLAIN + b"Content-Length: 999\r\n\r\nvllm:")
        await writer.drain()
        writer.transport.abort()

    async with raw_server(resets) as server:
        reading = (await look(session, target(server.url))).reading
    assert reading.outcome in ("truncated", "disconnected")


GOOD_ANSWERS = [
    pytest.param(page(METRICS), id="plain"),
    pytest.param(page(METRICS, "Content-Type: text/plain; version=1.0.0; charset=utf-8"), id="vLLM's content type"),
    pytest.param(page(METRICS, "Content-Type: application/octet-stream"), id="a wrong content type"),
    pytest.param(page(METRICS, "Content-Type: ;;;"), id="a content type that is none"),
    pytest.param(page(GZIPPED, "Content-Encoding: gzip"), id="gzip"),
    pytest.param(page(zlib.compress(METRICS), "Content-Encoding: deflate"), id="deflate"),
    pytest.param(page(METRICS.replace(b"\n", b"\r\n")), id="CRLF"),
    pytest.param(page(b'\xff\xfe_total{x="\xc3\x28"} 1\n' + METRICS), id="bad UTF-8 in another series"),
    pytest.param(page(METRICS[:-1]), id="a last line without its end, of announced length"),
    pytest.param(sends(CHUNKED + chunks(METRICS[:40], METRICS[40:-1], b"")), id="chunks"),
    pytest.param(sends(PLAIN + b"\r\n" + METRICS), id="no length, ends with the connection"),
    pytest.param(sends(SIZED, *(METRICS[i : i + 9] for i in range(0, len(METRICS), 9))), id="in small pieces"),
]


@pytest.mark.parametrize("answer", GOOD_ANSWERS)
async def test_reads_a_good_page_however_it_comes(session: aiohttp.ClientSession, answer: Answer) -> None:
    async with raw_server(answer) as server:
        reading = (await look(session, target(server.url))).reading
    assert reading.outcome == "ok", reading.detail
    assert {s.signal: s.value for s in reading.samples} == {"generation_tokens_total": 7, "requests_running": 2}


async def test_half_a_number_is_no_number(session: aiohttp.ClientSession) -> None:
    """A page of no announced length that breaks off inside `120` must not read 12."""
    body = METRICS + b'vllm:num_requests_waiting{engine="0",model_name="m"} 12'
    async with raw_server(sends(PLAIN + b"\r\n" + body)) as server:
        reading = (await look(session, target(server.url))).reading
    assert {s.signal for s in reading.samples} == {"generation_tokens_total", "requests_running"}


@pytest.mark.parametrize("is_gzip", [False, True], ids=["plain", "gzip"])
async def test_a_page_of_20_megabytes_is_cut_at_the_limit_and_that_is_told(
    session: aiohttp.ClientSession,
    is_gzip: bool,  # noqa: FBT001  a row's two cases
) -> None:
    body = METRICS + b"".join(b'filler{n="%07d"} 123456789\n' % n for n in range(600_000))
    assert len(body) > 16_000_000
    answer = page(gzip.compress(body, 1), "Content-Encoding: gzip") if is_gzip else page(body)
    async with raw_server(answer) as server:
        scraped = await look(session, target(server.url, max_bytes=100_000))
    assert scraped.reading.outcome == "ok"
    assert len(scraped.body) <= 100_000
    assert scraped.body.endswith("\n")
    assert [w.code for w in scraped.reading.warnings] == ["page_cut"]
    assert "100000 bytes" in scraped.reading.warnings[0].message


async def test_while_a_huge_page_is_read_the_loop_goes_on(session: aiohttp.ClientSession) -> None:
    """300,000 series that we need none of, and as many names: slow by design. A timer beside it still gets its turn."""
    body = METRICS + b"".join(b"filler_%07d 123456789\n" % n for n in range(300_000))
    turns = 0

    async def counts() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    async with raw_server(page(body)) as server:
        at = target(server.url, max_bytes=20_000_000)
        scraper = Scraper(at, session, SystemClock())
        counting = asyncio.create_task(counts())
        page_text = (await fetch_page(session, at, SystemClock())).text
        turns = 0
        reading = await scraper._read(page_text, 1.0)
        counting.cancel()
    assert reading.outcome == "ok"
    assert turns >= 3


async def test_a_hanging_target_does_not_hold_up_the_others(session: aiohttp.ClientSession) -> None:
    """Three bad targets and a good one looked at together: the good one is there long before the slow one gives up."""
    async with raw_server(hangs) as slow, raw_server(page(HTML)) as web, raw_server(page(METRICS)) as good:
        began = time.perf_counter()
        waiting = asyncio.create_task(look(session, target(slow.url, timeout_seconds=30)))
        scraped = await asyncio.gather(*(look(session, target(server.url)) for server in (web, good)))
        took = time.perf_counter() - began
        assert [s.reading.outcome for s in scraped] == ["html", "ok"]
        assert not waiting.done()
        assert took < 15
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_token_with_a_line_feed_is_an_outcome_that_does_not_show_it(session: aiohttp.ClientSession) -> None:
    async with raw_server(page(METRICS)) as server:
        bad = replace(target(server.url), headers={"Authorization": f"Bearer {TOKEN}\nX: y"})
        reading = (await look(session, bad)).reading
    assert reading.outcome == "protocol_error"
    assert TOKEN not in reading.detail


async def test_timeouts_are_seconds_of_the_clock(session: aiohttp.ClientSession) -> None:
    """At 20 times the speed, 10 s of patience are half a real second."""
    async with raw_server(hangs) as server:
        began = time.perf_counter()
        reading = (
            await Scraper(target(server.url, timeout_seconds=10), session, ScaledClock(20, time.time())).scrape()
        ).reading
        took = time.perf_counter() - began
    assert reading.outcome == "timeout"
    assert 0.4 < took < 5
    assert reading.duration_seconds == pytest.approx(took * 20, rel=0.5)


async def test_a_server_that_comes_back_is_read_again(session: aiohttp.ClientSession) -> None:
    answers = [page(b"starting", status="503 Wait"), page(METRICS)]

    async def answer(writer: asyncio.StreamWriter) -> None:
        await answers.pop(0)(writer)

    async with raw_server(answer) as server:
        scraper = Scraper(target(server.url), session, SystemClock())
        outcomes = [(await scraper.scrape()).reading.outcome for _ in range(2)]
    assert outcomes == ["status_503", "ok"]
