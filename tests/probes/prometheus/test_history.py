"""Pages put together again out of a Prometheus: the numbers and times of the scrapes, and honest about the rest."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from fake_prometheus import FakePrometheus

from probes.prometheus.api import Access, PrometheusApi, PrometheusError
from probes.prometheus.history import PrometheusHistory
from probes.sample import Reading

T0 = 1_800_000_000.0
Serve = Callable[..., Awaitable[Any]]
OWN = {"engine": "0", "model_name": "m"}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


async def started(serve: Serve, fake: FakePrometheus) -> str:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    server = await serve(app)
    return str(server.make_url("")).rstrip("/")


def an_hour(step: float = 15.0, hole: tuple[float, float] = (0, 0)) -> FakePrometheus:
    """One engine, scraped for an hour: tokens, TTFT in two buckets, running requests."""
    fake = FakePrometheus()
    times = [T0 + step * n for n in range(int(3600 / step) + 1)]
    seen = [at for at in times if not hole[0] < at < hole[1]]
    fake.add("vllm:generation_tokens_total", [(at, at - T0) for at in seen], **OWN)
    for edge, part in (("2.5", 0.5), ("+Inf", 1.0)):
        counts = [(at, float(int((at - T0) * part))) for at in seen]
        fake.add("vllm:time_to_first_token_seconds_bucket", counts, **OWN, le=edge)
    fake.add("vllm:num_requests_running", [(at, 3.0) for at in seen], **OWN)
    fake.add("process_start_time_seconds", [(at, T0 - 99) for at in seen])
    fake.add("go_goroutines", [(at, 7.0) for at in seen])
    fake.add("up", [(at, 0.0 if hole[0] < at < hole[1] else 1.0) for at in times])
    return fake


async def readings_of(
    history: PrometheusHistory, start: float = T0, end: float = T0 + 3600, step: float | None = None
) -> list[Reading]:
    return [reading async for piece in history.pieces(start, end, step) for reading in piece.readings]


async def test_every_scrape_is_a_reading_with_its_own_time(
    aiohttp_server: Serve, session: aiohttp.ClientSession
) -> None:
    url = await started(aiohttp_server, an_hour())
    history = PrometheusHistory(PrometheusApi(Access(url), session), names={"vllm-0:8000": "mine"})
    readings = await readings_of(history)
    assert [reading.at_seconds for reading in readings] == [T0 + 15 * n for n in range(241)]
    assert {(reading.target, reading.outcome) for reading in readings} == {("mine", "ok")}
    last = readings[-1]
    assert {sample.signal: sample.value for sample in last.samples} == {
        "generation_tokens_total": 3600.0,
        "requests_running": 3.0,
    }
    assert last.process_start_seconds == T0 - 99
    (ttft,) = last.histograms
    assert (ttft.edges, ttft.counts) == ((2.5, math.inf), (1800.0, 3600.0))


async def test_a_server_that_answers_little_at_once_is_asked_for_less(
    aiohttp_server: Serve, session: aiohttp.ClientSession
) -> None:
    fake = an_hour()
    url = await started(aiohttp_server, fake)
    whole = await readings_of(PrometheusHistory(PrometheusApi(Access(url), session)))
    fake.most_samples = 100
    in_pieces = await readings_of(PrometheusHistory(PrometheusApi(Access(url), session)))
    assert in_pieces == whole
    assert len(fake.asked) > 20


async def test_a_step_reads_what_was_known_then(aiohttp_server: Serve, session: aiohttp.ClientSession) -> None:
    url = await started(aiohttp_server, an_hour())
    readings = await readings_of(PrometheusHistory(PrometheusApi(Access(url), session)), step=60.0)
    assert [reading.at_seconds for reading in readings] == [T0 + 60 * n for n in range(61)]
    assert readings[-1].samples[0].value == 3600.0


async def test_scrapes_that_failed_are_looks_without_a_page(
    aiohttp_server: Serve, session: aiohttp.ClientSession
) -> None:
    url = await started(aiohttp_server, an_hour(hole=(T0 + 100, T0 + 160)))
    readings = await readings_of(PrometheusHistory(PrometheusApi(Access(url), session)))
    failed = [reading for reading in readings if reading.outcome != "ok"]
    assert [reading.at_seconds - T0 for reading in failed] == [105, 120, 135, 150]
    assert {(reading.outcome, reading.samples) for reading in failed} == {("unreadable", ())}


async def test_two_jobs_that_scrape_one_server_count_it_once(
    aiohttp_server: Serve, session: aiohttp.ClientSession
) -> None:
    fake = an_hour()
    for labels, samples in list(fake.series):
        fake.series.append(({**labels, "job": "again"}, [(at + 7, value) for at, value in samples]))
    url = await started(aiohttp_server, fake)
    history = PrometheusHistory(PrometheusApi(Access(url), session))
    readings = await readings_of(history)
    assert set(history.found) == {"vllm-0-8000"}
    assert len({sample.engine for reading in readings for sample in reading.samples}) == 1


async def test_one_address_in_two_clusters_is_two_targets(
    aiohttp_server: Serve, session: aiohttp.ClientSession
) -> None:
    fake = an_hour()
    fake.series = [({**labels, "cluster": cluster}, samples) for cluster in "ab" for labels, samples in fake.series]
    url = await started(aiohttp_server, fake)
    history = PrometheusHistory(PrometheusApi(Access(url), session))
    await history.look_around(T0, T0 + 3600)
    assert set(history.found) == {"vllm-0-8000", "b-vllm-0-8000"}


async def test_values_that_are_no_numbers_are_unknown(aiohttp_server: Serve, session: aiohttp.ClientSession) -> None:
    fake = an_hour()
    fake.add("vllm:kv_cache_usage_perc", [(T0 + 15 * n, math.nan) for n in range(241)], **OWN)
    url = await started(aiohttp_server, fake)
    readings = await readings_of(PrometheusHistory(PrometheusApi(Access(url), session)))
    assert not any(sample.signal == "kv_usage_ratio" for reading in readings for sample in reading.samples)


async def test_a_token_is_sent_and_asked_for(aiohttp_server: Serve, session: aiohttp.ClientSession) -> None:
    fake = an_hour()
    fake.token = "s3cret"
    url = await started(aiohttp_server, fake)
    headers = {"Authorization": "Bearer s3cret"}
    assert await readings_of(PrometheusHistory(PrometheusApi(Access(url, headers), session)))
    with pytest.raises(PrometheusError, match=r"HTTP 401: it wants to know who we are. Name its file"):
        await readings_of(PrometheusHistory(PrometheusApi(Access(url), session)))


async def test_a_prometheus_without_vllm_is_told(aiohttp_server: Serve, session: aiohttp.ClientSession) -> None:
    url = await started(aiohttp_server, FakePrometheus())
    with pytest.raises(PrometheusError, match="no series of vLLM"):
        await readings_of(PrometheusHistory(PrometheusApi(Access(url), session)))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1", "Is it running there"),
        ("ftp://x", "no address of a Prometheus"),
        ("http://me:pw@x", "No user or password"),
    ],
)
async def test_an_address_where_none_is(url: str, words: str, session: aiohttp.ClientSession) -> None:
    with pytest.raises(PrometheusError, match=words):
        await readings_of(PrometheusHistory(PrometheusApi.at(Access(url), session)))


async def test_something_else_that_answers_is_told(aiohttp_server: Serve, session: aiohttp.ClientSession) -> None:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _page)
    url = str((await aiohttp_server(app)).make_url("")).rstrip("/")
    with pytest.raises(PrometheusError, match="no answer of Prometheus' API"):
        await readings_of(PrometheusHistory(PrometheusApi(Access(url), session)))


SERIES = [{"__name__": "vllm:num_requests_running", "instance": "vllm-0:8000"}]


@pytest.mark.parametrize("series", ["x", ["x"], None, 5, [{"__name__": 5}]])
async def test_a_list_of_series_that_is_none_is_told(
    aiohttp_server: Serve, session: aiohttp.ClientSession, series: object
) -> None:
    api = PrometheusApi(Access(await answering(aiohttp_server, series=series)), session)
    with pytest.raises(PrometheusError, match="its result cannot be read"):
        await readings_of(PrometheusHistory(api))


@pytest.mark.parametrize(
    "data",
    [None, [], {"result": None}, {"result": [1, "1"]}]
    + [{"result": [{"metric": metric, "values": [[T0, "1"]]}]} for metric in (None, "x", 5, {"instance": ["a"]})]
    + [{"result": [{"metric": SERIES[0], "values": values}]} for values in (None, 5, [[T0]], [[T0, "x"]], [["x", 1]])],
)
async def test_a_result_that_is_none_is_told(
    aiohttp_server: Serve, session: aiohttp.ClientSession, data: object
) -> None:
    api = PrometheusApi(Access(await answering(aiohttp_server, series=SERIES, query=data)), session)
    with pytest.raises(PrometheusError, match="its result cannot be read"):
        await readings_of(PrometheusHistory(api))


async def test_series_without_a_name_are_none_of_ours(aiohttp_server: Serve, session: aiohttp.ClientSession) -> None:
    nameless = {"result": [{"metric": {"instance": "vllm-0:8000"}, "values": [[T0, "1"]]}]}
    api = PrometheusApi(Access(await answering(aiohttp_server, series=[*SERIES, {}], query=nameless)), session)
    assert await readings_of(PrometheusHistory(api)) == []


async def answering(serve: Serve, **data: object) -> str:
    """A server that has one answer to each kind of question."""

    async def handle(request: web.Request) -> web.Response:
        return web.json_response({"status": "success", "data": data[request.path.rpartition("/")[2]]})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    return str((await serve(app)).make_url("")).rstrip("/")


async def _page(_: web.Request) -> web.Response:
    return web.Response(text="<html>Grafana</html>", content_type="text/html")
