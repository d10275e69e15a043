"""What the agent counts about itself."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from agent.outputs.self_metrics import SelfMetrics
from probes.sample import PageWarning, ProbeResult, Reading


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def own(registry: CollectorRegistry) -> SelfMetrics:
    return SelfMetrics(registry)


def test_scrapes_are_counted_by_outcome(own: SelfMetrics, registry: CollectorRegistry) -> None:
    """A failed look leaves the size of the last page that was read."""
    own.scraped(Reading("vllm-0", "vllm", 1.0, body_bytes=900, duration_seconds=0.02))
    own.scraped(Reading("vllm-0", "vllm", 2.0, outcome="timeout", duration_seconds=5.0))
    own.scraped(Reading("vllm-0", "vllm", 3.0, outcome="timeout", duration_seconds=5.1))
    counted = [
        registry.get_sample_value("slo_agent_scrapes_total", {"target": "vllm-0", "outcome": outcome})
        for outcome in ("ok", "timeout", "html")
    ]
    assert counted == [1.0, 2.0, None]
    assert registry.get_sample_value("slo_agent_page_bytes", {"target": "vllm-0"}) == 900.0
    assert registry.get_sample_value("slo_agent_scrape_duration_seconds", {"target": "vllm-0"}) == 5.1


def test_page_warnings_are_counted_by_code(own: SelfMetrics, registry: CollectorRegistry) -> None:
    own.scraped(Reading("vllm-0", "vllm", 1.0, warnings=(PageWarning("nan", "a"), PageWarning("nan", "b"))))
    labels = {"target": "vllm-0", "code": "nan"}
    assert registry.get_sample_value("slo_agent_page_warnings_total", labels) == 2.0


def test_canaries_and_deliveries_are_counted(own: SelfMetrics, registry: CollectorRegistry) -> None:
    own.probed(ProbeResult("vllm-0", "chat", "missed", 1.0, 1.0))
    own.delivered("alertmanager", "timeout")
    own.job_missed("canary")
    lines = generate_latest(registry).decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'slo_agent_probes_total{kind="chat",outcome="missed",target="vllm-0"} 1.0',
        'slo_agent_deliveries_total{outcome="timeout",output="alertmanager"} 1.0',
        'slo_agent_missed_jobs_total{job="canary"} 1.0',
    ]


def test_a_new_config_replaces_the_old_one(own: SelfMetrics, registry: CollectorRegistry) -> None:
    own.configured("1.0", "aaa")
    own.configured("1.0", "bbb")
    labels = [{"version": "1.0", "config_hash": value} for value in ("aaa", "bbb")]
    assert [registry.get_sample_value("slo_agent_config_info", one) for one in labels] == [None, 1.0]


def test_a_target_that_is_gone_takes_its_series_along(own: SelfMetrics, registry: CollectorRegistry) -> None:
    own.scraped(Reading("vllm-0", "vllm", 1.0))
    own.scraped(Reading("vllm-1", "vllm", 1.0))
    own.ticked("slis", 0.001)
    own.forget_target("vllm-0")
    page = generate_latest(registry).decode()
    assert "vllm-0" not in page
    assert 'slo_agent_scrapes_total{outcome="ok",target="vllm-1"} 1.0' in page
    assert 'slo_agent_tick_duration_seconds{step="slis"} 0.001' in page


def test_counts_from_several_threads_are_not_lost(own: SelfMetrics, registry: CollectorRegistry) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: own.delivered("otlp", "ok"), range(2000)))
    assert registry.get_sample_value("slo_agent_deliveries_total", {"output": "otlp", "outcome": "ok"}) == 2000.0
