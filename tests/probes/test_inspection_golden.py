"""`inspect` on every page of the collection, word for word; and the same figures by another parser.

Mend after a wanted change: python tests/probes/test_inspection_golden.py, and read the difference by hand.
"""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_files import fixture, shared
from prometheus_client.parser import text_string_to_metric_families

from probes.books import BOOKS, Family
from probes.inspection import MEAN_SIGNALS, inspect_page
from probes.names.table import Name

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden" / "inspect"
PAGES = [
    *("vllm_0.24_h200_after_sweep.prom", "vllm_0.24_h200_idle.prom", "vllm_0.24_pd_decode.prom"),
    *("vllm_0.24_pd_prefill.prom", "vllm_0.32_cpu.prom", "vllm_0.32_cpu_idle.prom", "vllm_0.32_with_lmcache.prom"),
    *("vllm_v0_0.6_real.txt", "lmcache_mp.prom", "lmcache_mp_http_idle.prom", "lmcache_mp_http_small_idle.prom"),
    "lmcache_mp_with_vllm.prom",
    *("mooncake_master_idle.prom", "mooncake_master.prom", "mooncake_master_pressure.prom", "mooncake_client.prom"),
    *("dynamo_frontend_idle.prom", "dynamo_frontend_underload.prom", "dynamo_frontend.prom", "dynamo_mocker.prom"),
    *("dynamo_pd_frontend.prom", "dynamo_pd_prefill.prom", "dynamo_pd_decode1.prom"),
    "dynamo_agg_workerkilled_3s_frontend.prom",
    *("vllm_router_idle.prom", "vllm_router.prom", "vllm_router_pd.prom"),
    *(
        f"llm_d_{name}.txt"
        for name in (
            *(f"flow_control_{what}_metric" for what in (
                "dispatch_cycle_duration_seconds", "enqueue_duration_seconds", "pending_reclaim", "reclaim_target",
                "revocations_issued", "revocations",
            )),
            *("input_tokens_metric", "kv_cache_avg_metrics", "kv_cache_std_dev_metrics", "output_tokens_metric"),
            *("normalized_time_per_output_token_seconds_metric", "prefix_indexer_hit_bytes_metric"),
            *("prefix_indexer_hit_ratio_metric", "prefix_indexer_size_metric", "queue_avg_size_metrics"),
            *("queue_std_dev_size_metrics", "request_duration_seconds_metric", "request_error_total_metric"),
            *("request_processing_duration_seconds_metric", "request_size_bytes_metric", "request_total_metric"),
            *("request_tpot_seconds_metric", "request_ttft_seconds_metric", "response_size_bytes_metric"),
            *("response_processing_duration_seconds_metric", "running_requests_avg_metrics"),
            *("running_requests_metrics", "running_requests_std_dev_metrics"),
            *(f"scheduler_attempts_{what}_metrics" for what in (
                "different_models", "multiple_endpoints", "total", "with_result",
            )),
            "scheduler_e2e_duration_seconds_metric",
        )
    ),
]  # fmt: skip
BUILT = ("dcgm_documented", "production_stack_router_documented", "llm_d_epp_both_names")
"""Pages put together from names in documents and code, for want of a captured one (tests/fixtures/pages)."""
FOLDERS = ("vllm_router", "llm_d", "vllm", "lmcache", "mooncake", "dynamo")


def page_path(name: str) -> str:
    folder = next(folder for folder in FOLDERS if name.startswith(folder))
    return f"pages/{'llm_d_epp' if folder == 'llm_d' else folder}/{name}"


def page_text(name: str) -> str:
    return fixture(name) if name in BUILT else shared(page_path(name)).read_text()


def document(text: str) -> str:
    """The answer; a model's folder on the machine of the capture reads /models."""
    answer = json.dumps(inspect_page(text).json(), indent=1, sort_keys=True, allow_nan=False) + "\n"
    return re.sub(r'"model": "/[^"]*/([^"/]+)"', r'"model": "/models/\1"', answer)


def golden(name: str) -> Path:
    return GOLDEN / f"{name if name in BUILT else name.rpartition('.')[0]}.json"


@pytest.mark.parametrize("name", [*PAGES, *BUILT])
def test_inspect_says_what_it_said(name: str) -> None:
    assert document(page_text(name)) == golden(name).read_text(encoding="utf-8")


def test_every_page_of_the_collection_is_held() -> None:
    folder = shared("pages/vllm").parent
    assert {file.name for system in folder.iterdir() for file in system.iterdir()} == set(PAGES)


@pytest.mark.parametrize("name", [*PAGES, *BUILT])
def test_the_golden_figures_are_those_of_another_parser(name: str) -> None:
    """prometheus_client reads the page; sums (means of ratios) over its series are what the golden file holds."""
    held = json.loads(golden(name).read_text(encoding="utf-8"))
    text = page_text(name)
    expected: dict[str, float | None] = {}
    for family in BOOKS[held["system"]].families:
        found = dict(_expected(text, family))
        expected |= {key: value for key, value in found.items() if value is not None or not family.is_optional}
    actual = {key: value for key, value in held["signals"].items() if "{" not in key and key != "kv_capacity_tokens"}
    labelled = {key.partition("{")[0] for key in held["signals"] if "{" in key}
    assert {key: value for key, value in expected.items() if not (value is None and key in labelled)} == pytest.approx(
        {key: actual.get(key) for key in expected if not (expected[key] is None and key in labelled)}
    )
    assert {key for key, value in actual.items() if value is not None} <= {
        k for k, v in expected.items() if v is not None
    }


Series = dict[str, dict[frozenset[tuple[str, str]], float]]


def _expected(text: str, family: Family) -> Iterator[tuple[str, float | None]]:
    series: Series = {}
    for metric in text_string_to_metric_families(text):
        for sample in metric.samples:
            for name in {sample.name, sample.name.removesuffix("_total")}:  # that parser adds it to every counter
                series.setdefault(name, {}).setdefault(frozenset(sample.labels.items()), sample.value)
    for row in family.names:
        name = next((n for n in row.names if _first(series, family, row, n)), row.names[0])
        if row.kind == "histogram":
            found = _first(series, family, row, name)
            buckets = [value for labels, value in found if float(dict(labels)["le"]) == math.inf]
            totals = [value * row.scale for _, value in _of(series, family, row, f"{name}_sum")]
            yield f"{row.signal}_count", sum(buckets) if buckets else None
            if totals:
                yield f"{row.signal}_sum", sum(totals)
            continue
        values = [value * row.scale for _, value in _of(series, family, row, name)]
        if row.label and row.kind == "gauge":
            continue  # told by label alone
        count = len(values) if row.signal in MEAN_SIGNALS else 1
        yield row.signal, sum(values) / count if values else None


def _first(series: Series, family: Family, row: Name, name: str) -> list[tuple[frozenset[tuple[str, str]], float]]:
    return _of(series, family, row, f"{name}_bucket" if row.kind == "histogram" else name)


def _of(series: Series, family: Family, row: Name, name: str) -> list[tuple[frozenset[tuple[str, str]], float]]:
    every = next((series[prefix + name] for prefix in family.prefixes if prefix + name in series), {})
    return [pair for pair in every.items() if row.where is None or row.where in pair[0]]


if __name__ == "__main__":
    for page in (*PAGES, *BUILT):
        golden(page).write_text(document(page_text(page)), encoding="utf-8")
