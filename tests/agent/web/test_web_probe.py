"""/probe: blackbox_exporter's manners, our figures, and no way to aim it at somebody else."""

import asyncio

import fake_view
import pytest
from fake_actions import FakeActions
from fake_world import probes
from serving import Serve

GOOD = next(probe for probe in probes() if probe.is_ok)


async def test_a_good_canary_is_told_in_figures(serve: Serve) -> None:
    client = await serve(fake_view.calm(), FakeActions(answer=GOOD))
    response = await client.get("/probe?target=http://vllm-0:8000")
    text = await response.text()
    assert response.status == 200
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    assert "\nprobe_success 1.0\n" in text
    assert "\nprobe_duration_seconds " in text
    assert f"\nslo_agent_probe_ttft_seconds {GOOD.ttft_seconds}\n" in text
    assert '\nslo_agent_probe_itl_seconds{stat="max"} 0.09\n' in text
    assert 'slo_agent_probe_phase_seconds{phase="connect"} 0.0011' in text
    assert 'phase="tls"' not in text  # unknown has no series


async def test_a_failed_canary_says_why_and_shows_no_figures_it_does_not_have(serve: Serve) -> None:
    client = await serve(fake_view.calm(), FakeActions(answer="connect_refused"))
    text = await (await client.get("/probe?target=vllm-0")).text()
    assert "\nprobe_success 0.0\n" in text
    assert '\nslo_agent_probe_outcome{outcome="connect_refused"} 1.0\n' in text
    assert "ttft" not in text


@pytest.mark.parametrize("asked", ["vllm-0", "http://vllm-0:8000", "http://VLLM-0:8000/", "HTTP://vllm-0:8000"])
async def test_the_configured_address_is_used_however_it_is_spelt(serve: Serve, asked: str) -> None:
    actions = FakeActions(answer=GOOD)
    client = await serve(fake_view.calm(), actions)
    assert (await client.get("/probe", params={"target": asked, "model": "m"})).status == 200
    assert actions.probed == [("http://vllm-0:8000", "m")]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("", 400),
        ("file:///etc/passwd", 400),
        ("vllm-9", 400),
        ("http://", 400),
        ("http://[", 400),
        ("http://vllm-0:99999", 400),
        ("http://user:secret@vllm-0:8000", 400),
        ("http://169.254.169.254/latest", 403),
        ("http://vllm-0:8001", 403),
        ("https://vllm-0:8000", 403),
        ("http://vllm-0:8000/other", 403),
        ("http://vllm-0:8000@evil.example", 400),
    ],
)
async def test_nothing_else_is_probed(serve: Serve, asked: str, status: int) -> None:
    actions = FakeActions(answer=GOOD)
    client = await serve(fake_view.calm(), actions)
    response = await client.get("/probe", params={"target": asked})
    assert response.status == status
    assert set(await response.json()) == {"error", "what", "where", "fix"}
    assert actions.probed == []


async def test_any_address_is_probed_only_where_that_was_switched_on(serve: Serve) -> None:
    actions = FakeActions(answer=GOOD)
    client = await serve(fake_view.calm(), actions, probe_any_address=True)
    assert (await client.get("/probe?target=http://elsewhere:9000")).status == 200
    assert (await client.get("/probe?target=gopher://elsewhere")).status == 400
    assert actions.probed == [("http://elsewhere:9000", None)]


async def test_the_scrape_timeout_of_prometheus_ends_the_probe_in_time(serve: Serve) -> None:
    client = await serve(fake_view.calm(), FakeActions(answer=GOOD, takes_seconds=30))
    response = await client.get("/probe?target=vllm-0", headers={"X-Prometheus-Scrape-Timeout-Seconds": "0.6"})
    assert 'slo_agent_probe_outcome{outcome="scrape_timeout"} 1.0' in await response.text()


async def test_a_fifth_probe_at_once_is_turned_away(serve: Serve) -> None:
    client = await serve(fake_view.calm(), FakeActions(answer=GOOD, takes_seconds=0.3))
    answers = await asyncio.gather(*(client.get("/probe?target=vllm-0") for _ in range(5)))
    assert sorted(answer.status for answer in answers) == [200, 200, 200, 200, 429]
