"""The version guess: as far as the names of a page tell, and not a step further."""

import pytest
from page_files import shared

from probes.inspection import inspect_page
from probes.marks import page_marks
from probes.names.versions import LMCACHE, VLLM, Sign, guess_version

# what V1 servers always write beside each other, oldest first: the names that came with a version
V1 = ["kv_cache_usage_perc", "inter_token_latency_seconds_bucket", "request_time_per_output_token_seconds_bucket"]
V0_13 = [*V1, "external_prefix_cache_queries_total", "engine_sleep_state", "request_prefill_kv_computed_tokens_bucket"]
V0_16 = [*V0_13, "prompt_tokens_by_source_total"]
V0_20 = [*V0_16, "num_requests_waiting_by_reason"]


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("vllm/vllm_0.24_h200_idle.prom", "0.24"),
        ("vllm/vllm_0.24_h200_after_sweep.prom", "0.24"),
        ("vllm/vllm_0.24_pd_decode.prom", "0.24"),
        ("vllm/vllm_0.24_pd_prefill.prom", "0.24"),
        ("vllm/vllm_0.32_cpu.prom", "0.32.."),
        ("vllm/vllm_0.32_cpu_idle.prom", "0.32.."),
        ("vllm/vllm_0.32_with_lmcache.prom", "0.32.."),
        ("vllm/vllm_v0_0.6_real.txt", "..0.8"),
        ("lmcache/lmcache_mp.prom", "0.5.6.."),
        ("lmcache/lmcache_mp_with_vllm.prom", "0.5.6.."),
        ("lmcache/lmcache_mp_http_idle.prom", "0.4.5.."),
    ],
)
def test_names_the_version_of_real_pages(path: str, version: str) -> None:
    """Idle, an LMCache server shows few of its names, so less is known of it."""
    assert inspect_page(shared(f"pages/{path}").read_text()).version == version


@pytest.mark.parametrize(
    ("marks", "version"),
    [
        pytest.param(["generation_tokens_total"], None, id="nothing tells"),
        pytest.param(V1, "0.11..0.12", id="0.12, by what it lacks"),
        pytest.param(V0_13, "0.13..0.15", id="0.15"),
        pytest.param(V0_16, "0.16..0.19", id="0.19"),
        pytest.param(V0_20, "0.20..", id="no labels to go by"),
        pytest.param(["gpu_cache_usage_perc", "gpu_prefix_cache_queries_total"], "0.8..0.11", id="V1 of the old names"),
        pytest.param([*V1, "time_per_output_token_seconds_bucket"], "0.11..0.12", id="hidden names shown"),
        pytest.param([*V0_16, "prompt_tokens_recomputed_total"], "0.16..0.19", id="a name that came and went"),
        pytest.param([*V0_20, "num_requests_swapped"], None, id="two servers on one page"),
        pytest.param(
            [*V1, "admission_rejections_total"], "0.32..", id="another front end leaves names out: no contradiction"
        ),
    ],
)
def test_a_range_is_as_narrow_as_the_evidence(marks: list[str], version: str | None) -> None:
    assert guess_version(frozenset(marks), VLLM) == version


@pytest.mark.parametrize(
    ("marks", "version"),
    [
        (["sm_read_requests_total", "l1_read_keys_total"], "0.4.3..0.4.5"),
        (["lookup_requested_tokens_total", "l1_evicted_chunks_total"], "0.4.6..0.5.4"),
        (["lookup_requested_tokens_total", "lookup_hit_l1_tokens_total"], "0.5.5"),
        (["num_lookup_tokens_total"], "0.3.2.."),
        (["cache_hit_rate"], "..0.3.6"),
    ],
)
def test_lmcache_of_both_families(marks: list[str], version: str) -> None:
    assert guess_version(frozenset(marks), LMCACHE) == version


def test_marks_are_names_without_prefix_and_the_labels_of_the_info_series() -> None:
    page = 'ray_vllm:info{a="x",b="y, c=\\"z\\""} 1\nvllm_num{d="1"} 2\nother 3\n# vllm:comment 4\n'
    assert page_marks(page, ("vllm:", "ray_vllm:", "vllm_"), "info") == {"info", "info{a}", "info{b}", "num"}


@pytest.mark.parametrize("signs", [VLLM, LMCACHE], ids=["vllm", "lmcache"])
def test_every_sign_says_something_and_no_two_the_same_mark(signs: tuple[Sign, ...]) -> None:
    assert len({sign.mark for sign in signs}) == len(signs)
    for sign in signs:
        assert sign.first or sign.last
        assert bool(sign.beside) == bool(sign.before)
        assert not (sign.first and sign.before) or sign.before < sign.first
