"""`inspect`: the right system, engines and signals for every page, and the JSON shape of design/interfaces.md."""

import json

import pytest
from page_files import fixture, shared

from probes.inspection import inspect_page


@pytest.mark.parametrize(
    ("path", "system"),
    [
        ("vllm/vllm_0.32_cpu_idle.prom", "vllm"),
        ("vllm/vllm_0.24_h200_idle.prom", "vllm"),
        ("vllm/vllm_v0_0.6_real.txt", "vllm"),
        ("lmcache/lmcache_mp.prom", "lmcache"),
        ("lmcache/lmcache_mp_http_idle.prom", "lmcache"),
        ("vllm_router/vllm_router.prom", "vllm_router"),
        ("vllm_router/vllm_router_idle.prom", "vllm_router"),
        ("vllm_router/vllm_router_pd.prom", "vllm_router"),
        ("dynamo/dynamo_frontend.prom", "dynamo_frontend"),
        ("dynamo/dynamo_frontend_idle.prom", "dynamo_frontend"),
        ("dynamo/dynamo_mocker.prom", "dynamo_worker"),
        ("dynamo/dynamo_pd_decode1.prom", "dynamo_worker"),
        ("dynamo/dynamo_pd_prefill.prom", "dynamo_worker"),
        ("mooncake/mooncake_master.prom", "mooncake"),
        ("mooncake/mooncake_master_idle.prom", "mooncake"),
        ("mooncake/mooncake_client.prom", "mooncake"),
        ("llm_d_epp/llm_d_request_total_metric.txt", "llm_d_epp"),
        ("llm_d_epp/llm_d_running_requests_metrics.txt", "llm_d_epp"),
    ],
)
def test_names_the_system(path: str, system: str) -> None:
    inspection = inspect_page(shared(f"pages/{path}").read_text())
    assert inspection.system == system
    assert inspection.samples > 0


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 99\n', "dcgm"),
        ("go_goroutines 7\n", "unknown"),
        ("", "unknown"),
        ("# HELP vllm:num_requests_running only a comment\n", "unknown"),
        ('lmcache:num_hit_tokens_total{worker_id="0"} 1\n', "lmcache"),
        ('lmcache:num_hit_tokens_total{worker_id="0"} 1\nvllm:generation_tokens_total 1\n', "vllm"),
    ],
)
def test_tells_systems_apart_by_their_names(text: str, system: str) -> None:
    assert inspect_page(text).system == system


def test_a_page_of_a_known_system_that_says_nothing_we_read_is_told() -> None:
    (warning,) = inspect_page("llm_d_epp_prefix_indexer_size 4096\n").warnings
    assert warning.code == "not_llm_d_epp"
    assert "1 series, but none that gives any signal" in warning.message


def test_shape_and_values() -> None:
    """The keys of design/interfaces.md and no others; sums over engines, None for what the page lacks."""
    document = inspect_page(fixture("vllm_0.24_h200_after_sweep")).json()
    assert list(document) == ["system", "version", "samples", "engines", "signals", "warnings"]
    assert document["engines"] == ({"engine": "0", "model": "llama8b"},)
    signals = document["signals"]
    assert signals["generation_tokens_total"] == 200_704
    assert signals["requests_finished_total"] == 196
    assert signals["requests_running"] == 0
    assert signals["ttft_seconds_count"] == 196
    assert signals["requests_rejected_total"] is None
    assert json.loads(json.dumps(document, allow_nan=False))["version"] == "0.24"


def test_adds_engines_up_and_averages_ratios() -> None:
    """Waiting 3 and 5 are 8; usage 0.2 and 0.6 are 0.4 on average."""
    page = "".join(
        f'vllm:generation_tokens_total{{engine="{e}",model_name="m"}} 1\n'
        f'vllm:num_requests_waiting{{engine="{e}",model_name="m"}} {waiting}\n'
        f'vllm:kv_cache_usage_perc{{engine="{e}",model_name="m"}} {usage}\n'
        for e, waiting, usage in ((0, 3, 0.2), (1, 5, 0.6))
    )
    inspection = inspect_page(page)
    assert [engine.engine for engine in inspection.engines] == ["0", "1"]
    assert inspection.signals["requests_waiting"] == 8
    assert inspection.signals["kv_usage_ratio"] == pytest.approx(0.4)
    assert inspection.signals["generation_tokens_total"] == 2


def test_a_vllm_without_statistics_is_named_with_the_reason() -> None:
    """--disable-log-stats leaves no vllm: series of an engine, but other names may still carry the prefix."""
    inspection = inspect_page("vllm:lmcache_mp_lookup_duration_seconds_count 3\n")
    assert inspection.system == "vllm"
    assert [w.code for w in inspection.warnings] == ["not_vllm"]
    assert set(inspection.signals.values()) == {None}
