"""`inspect` on every page of the collection, word for word; and the same figures by another parser.

Mend after a wanted change: python tests/probes/test_inspection_golden.py, and read the difference by hand.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_files import SHARED, shared
from prometheus_client.parser import text_string_to_metric_families

from probes.books import BOOKS, Family
from probes.inspection import MEAN_SIGNALS, READ_AS, inspect_page

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden" / "inspect"
PAGES = [
    *("vllm_0.24_h200_after_sweep.prom", "vllm_0.24_h200_idle.prom", "vllm_0.24_pd_decode.prom"),
    *("vllm_0.24_pd_prefill.prom", "vllm_0.32_cpu.prom", "vllm_0.32_cpu_idle.prom", "vllm_0.32_with_lmcache.prom"),
    *("vllm_v0_0.6_real.txt", "lmcache_mp.prom", "lmcache_mp_http_idle.prom", "lmcache_mp_http_small_idle.prom"),
    "lmcache_mp_with_vllm.prom",
]


def page_path(name: str) -> str:
    return f"pages/{name.partition('_')[0]}/{name}"


def document(text: str) -> str:
    return json.dumps(inspect_page(text).json(), indent=1, sort_keys=True, allow_nan=False) + "\n"


def golden(name: str) -> Path:
    return GOLDEN / f"{name.rpartition('.')[0]}.json"


@pytest.mark.parametrize("name", PAGES)
def test_inspect_says_what_it_said(name: str) -> None:
    assert document(shared(page_path(name)).read_text()) == golden(name).read_text(encoding="utf-8")


def test_every_page_of_the_collection_is_held() -> None:
    folder = shared("pages/vllm").parent
    assert {file.name for system in ("vllm", "lmcache") for file in (folder / system).iterdir()} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_the_golden_figures_are_those_of_another_parser(name: str) -> None:
    """prometheus_client reads the page; sums (means of ratios) over its series are what the golden file holds."""
    held = json.loads(golden(name).read_text(encoding="utf-8"))
    text = shared(page_path(name)).read_text()
    expected = dict(_expected(text, BOOKS[READ_AS[held["system"]]].families[0]))
    actual = {key: value for key, value in held["signals"].items() if "{" not in key and key != "kv_capacity_tokens"}
    labelled = {key.partition("{")[0] for key in held["signals"] if "{" in key}
    assert {key: value for key, value in expected.items() if not (value is None and key in labelled)} == pytest.approx(
        {key: actual.get(key) for key in expected if not (expected[key] is None and key in labelled)}
    )
    assert {key for key, value in actual.items() if value is not None} <= {
        k for k, v in expected.items() if v is not None
    }


def _expected(text: str, family: Family) -> Iterator[tuple[str, float | None]]:
    series: dict[str, list[tuple[dict[str, str], float]]] = {}
    for metric in text_string_to_metric_families(text):
        for sample in metric.samples:
            series.setdefault(sample.name, []).append((sample.labels, sample.value))
    for row in family.names:
        name = next((n for n in row.names if _first(series, family, n, row.kind)), row.names[0])
        if row.kind == "histogram":
            buckets = [value for labels, value in _first(series, family, name, row.kind) if labels["le"] == "+Inf"]
            totals = [value for _, value in _of(series, family, f"{name}_sum")]
            yield f"{row.signal}_count", sum(buckets) if buckets else None
            if totals:
                yield f"{row.signal}_sum", sum(totals)
            continue
        values = [value for _, value in _of(series, family, name)]
        if row.label and row.kind == "gauge":
            continue  # told by label alone
        count = len(values) if row.signal in MEAN_SIGNALS else 1
        yield row.signal, sum(values) / count if values else None


def _first(
    series: dict[str, list[tuple[dict[str, str], float]]], family: Family, name: str, kind: str
) -> list[tuple[dict[str, str], float]]:
    return _of(series, family, f"{name}_bucket" if kind == "histogram" else name)


def _of(
    series: dict[str, list[tuple[dict[str, str], float]]], family: Family, name: str
) -> list[tuple[dict[str, str], float]]:
    return next((series[prefix + name] for prefix in family.prefixes if prefix + name in series), [])


if __name__ == "__main__":
    for page in PAGES:
        golden(page).write_text(document((SHARED / page_path(page)).read_text()), encoding="utf-8")
