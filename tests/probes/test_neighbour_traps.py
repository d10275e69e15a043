"""What is easily misread on the pages of routers, stores and GPU exporters."""

import pytest
from page_files import fixture, shared

from probes.books import System
from probes.inspection import inspect_page
from probes.page import SystemPage
from probes.sample import Reading


def read(system: System, text: str) -> Reading:
    return SystemPage(system).read(text, "t", 0.0)


def labelled(reading: Reading, signal: str) -> dict[str, float]:
    return {sample.label: sample.value for sample in reading.samples if sample.signal == signal}


def test_both_names_of_one_number_count_once() -> None:
    """The endpoint picker writes all of them: 50 requests are 50, not 100; 45 decisions 45, though the older name
    lacks the model.
    """
    reading = read("llm_d_epp", fixture("llm_d_epp_both_names"))
    assert labelled(reading, "router_scheduled_requests_total") == {"m": 50}
    assert labelled(reading, "router_failed_requests_total") == {"ModelServerError": 2, "BadRequest": 3}
    assert labelled(reading, "pd_decisions_total") == {"prefill-decode": 45, "decode-only": 5}


def test_the_older_names_alone_are_read_too() -> None:
    page = "\n".join(line for line in fixture("llm_d_epp_both_names").split("\n") if not line.startswith("llm_d_epp_"))
    reading = read("llm_d_epp", page)
    assert labelled(reading, "router_scheduled_requests_total") == {"m": 50}
    assert labelled(reading, "pd_decisions_total") == {"prefill-decode": 45}


def test_ttft_is_that_of_streams_alone() -> None:
    """40 streams; the 8 answers in one piece "start" when they end, and the older name cannot tell the two apart."""
    (ttft,) = (h for h in read("llm_d_epp", fixture("llm_d_epp_both_names")).histograms if "ttft" in h.signal)
    assert ttft.counts == (10, 38, 40)
    assert ttft.total == 12.5


def test_an_object_that_is_missing_is_a_miss_and_not_a_hit_rate_of_tokens() -> None:
    """101 gets, 29 of objects that were there; the page calls the 72 others failures."""
    signals = inspect_page(shared("pages/mooncake/mooncake_master.prom").read_text()).signals
    assert (signals["store_lookups_total"], signals["store_hits_total"]) == (101, 29)
    assert signals["store_missed_lookups_total"] == 72
    assert not [name for name in signals if "cache_hit" in name or "failed_gets" in name]


def test_who_hung_up_is_told_apart_from_what_failed() -> None:
    """One of two workers was killed: 69 answered, 9 hung up, 6 failed, of which 5 streams that were HTTP 200."""
    reading = read("dynamo_frontend", shared("pages/dynamo/dynamo_agg_workerkilled_3s_frontend.prom").read_text())
    assert labelled(reading, "router_requests_total") == {"success": 69, "cancelled": 9, "unavailable": 6}
    assert labelled(reading, "router_failures_total") == {"transport.cannot_connect": 1, "transport.disconnected": 5}


def test_series_that_a_worker_passes_through_twice_count_once() -> None:
    """Dynamo may pass vLLM's series through from two registries, one of them with labels of its own."""
    own = 'dynamo_component="backend",dynamo_namespace="d"'
    page = (
        'vllm:generation_tokens_total{engine="0",model_name="m"} 7\n'
        f'vllm:generation_tokens_total{{engine="0",model_name="m",{own}}} 7\n'
        f'dynamo_component_requests_total{{dynamo_endpoint="generate",{own}}} 3\n'
        f'dynamo_component_requests_total{{dynamo_endpoint="worker_kv_query",{own}}} 1\n'
    )
    reading = read("dynamo_worker", page)
    assert labelled(reading, "generation_tokens_total") == {"": 7}
    assert labelled(reading, "worker_requests_total") == {"backend": 3}
    assert [warning.code for warning in reading.warnings] == ["duplicates"]


def test_a_prefill_worker_has_no_engine_on_its_page_and_is_read_all_the_same() -> None:
    reading = read("dynamo_worker", shared("pages/dynamo/dynamo_pd_prefill.prom").read_text())
    assert reading.outcome == "ok"
    assert labelled(reading, "worker_requests_total") == {"prefill": 60}


def test_failures_that_retries_made_good_are_seen() -> None:
    """A client saw one failure in 60; worker 2 failed 17 times."""
    reading = read("vllm_router", shared("pages/vllm_router/vllm_router.prom").read_text())
    assert labelled(reading, "router_answered_requests_total") == {"/v1/chat/completions": 59}
    assert labelled(reading, "router_exhausted_requests_total") == {"/v1/chat/completions": 1}
    assert labelled(reading, "router_worker_outcomes_total") == {"success": 59, "failure": 17}


def test_durations_that_end_at_the_headers_are_no_latency() -> None:
    reading = read("vllm_router", shared("pages/vllm_router/vllm_router.prom").read_text())
    assert {histogram.signal for histogram in reading.histograms} == {"router_headers_seconds"}


def test_the_routers_of_production_stack_are_no_engines() -> None:
    """Its page has vLLM's own names, with a label `server`."""
    text = fixture("production_stack_router_documented")
    assert inspect_page(text).system == "production_stack_router"
    assert "requests_running" not in inspect_page(text).signals


@pytest.mark.parametrize(
    ("signal", "gpu", "value"),
    [
        ("gpu_utilization_ratio", "0", 0.98),
        ("gpu_energy_joules_total", "0", 123_456_789.0),
        ("gpu_memory_used_bytes", "1", 4 * 1_048_576),
        ("gpu_sm_clock_hertz", "1", 345e6),
        ("gpu_graphics_activity_ratio", "1/2", 0.42),
    ],
)
def test_an_exporters_units_become_ours(signal: str, gpu: str, value: float) -> None:
    """Percents, millijoules, MiB and MHz; a MIG instance stands behind its GPU, and has no utilisation."""
    samples = read("dcgm", fixture("dcgm_documented")).samples
    assert [s.value for s in samples if s.signal == signal and s.engine == gpu] == [pytest.approx(value)]
    assert [s for s in samples if s.signal == "gpu_utilization_ratio" and s.engine == "1/2"] == []
