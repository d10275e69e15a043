"""The names tables: every row stands on a real page, or says why none of ours has it."""

from pathlib import Path

import pytest
from page_files import SHARED, fixture

from probes.names import lmcache, lmcache_inprocess, vllm
from probes.names.document import signals_document
from probes.names.table import Name

# rows and alias names that no captured page shows, and why we still read them
NOT_ON_OUR_PAGES = {
    "gpu_prefix_cache_queries_total": "vLLM 0.8 to 0.10, of which we have no page",
    "gpu_prefix_cache_hits_total": "vLLM 0.8 to 0.10, of which we have no page",
    "gpu_cache_usage_perc": "vLLM V0; on the 0.6 page of the collection",
    "time_per_output_token_seconds": "vLLM V0; on the 0.6 page of the collection",
    "lookup_hit_total": "LMCache before 0.5.6, of which we have no page",
    "corrupted_requests_total": "only with VLLM_COMPUTE_NANS_IN_LOGITS=1; in the code since 0.11",
    "nixl_num_notifications_after_expiry_total": "only after such a notification; in the code of 0.32",
    "l1_chunk_reuse_gap_seconds": "written once a chunk came again; on the page of the server alone",
    **dict.fromkeys(
        [f"kv_block_{what}_seconds" for what in ("lifetime", "idle_before_evict", "reuse_gap")],
        "only with --kv-cache-metrics; in the code of 0.32",
    ),
    "l2_usage_bytes": "only with a second tier; in the code of 0.5.6",
    "l2_prefetch_failure_chunks_total": "only after such a failure; in the code of 0.5.6",
    **dict.fromkeys(
        [f"spec_decode_num_{what}_total" for what in ("drafts", "draft_tokens", "accepted_tokens")],
        "only with speculative decoding; in the code since 0.9",
    ),
    **dict.fromkeys(
        [
            *(f"kv_offload_{what}_total" for what in ("load_bytes", "load_time", "store_bytes", "store_time")),
            *("kv_offload_total_bytes_total", "kv_offload_allocation_failure_total"),
            *("kv_offload_tiering_chunk_queries_total", "kv_offload_tiering_chunk_hits_total"),
        ],
        "only with vLLM's own offloading; in the code of 0.32",
    ),
}
FIXTURES = (
    *("vllm_0.32_cpu", "vllm_0.24_h200_after_sweep", "vllm_0.24_pd_decode", "vllm_0.32_with_lmcache"),
    "lmcache_mp_with_vllm",
)
ROWS = [
    pytest.param(prefix, row, id=f"{prefix}{row.signal}")
    for prefix, rows in (("vllm:", vllm.NAMES), ("lmcache_mp_", lmcache.NAMES))
    for row in rows
]


def exposed(row: Name, name: str) -> str:
    return f"{name}_bucket" if row.kind == "histogram" else name


@pytest.mark.parametrize(("prefix", "row"), ROWS)
def test_every_name_stands_on_a_captured_page(prefix: str, row: Name) -> None:
    on_pages = {line.partition("{")[0].partition(" ")[0] for page in FIXTURES for line in fixture(page).splitlines()}
    missing = [name for name in row.names if prefix + exposed(row, name) not in on_pages]
    assert [name for name in missing if name not in NOT_ON_OUR_PAGES] == []


def test_no_excuse_is_out_of_date() -> None:
    """A name that a page of ours shows needs none, and one that no row has is read by nobody."""
    known = {name for row in (*vllm.NAMES, *lmcache.NAMES) for name in row.names}
    text = "".join(map(fixture, FIXTURES))
    assert set(NOT_ON_OUR_PAGES) <= known
    assert [name for name in NOT_ON_OUR_PAGES if f":{name}" in text or f"_mp_{name}" in text] == []


def test_the_v0_page_shows_the_old_names() -> None:
    page = SHARED / "pages" / "vllm" / "vllm_v0_0.6_real.txt"
    if not page.exists():
        pytest.skip(f"{page} is not there: set SLO_AGENT_SHARED to the folder that holds data/")
    text = page.read_text()
    assert "vllm:gpu_cache_usage_perc{" in text
    assert "vllm:time_per_output_token_seconds_bucket{" in text


@pytest.mark.parametrize("rows", [vllm.NAMES, lmcache.NAMES, lmcache_inprocess.NAMES], ids=["vllm", "mp", "inprocess"])
def test_a_signal_has_one_row_and_a_name_one_signal(rows: tuple[Name, ...]) -> None:
    signals, names = [row.signal for row in rows], [name for row in rows for name in row.names]
    assert len(set(signals)) == len(signals)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("prefix", "row"), ROWS)
def test_a_signal_carries_its_unit(prefix: str, row: Name) -> None:
    """Counters end in _total, times and sizes name their unit; requests are counted by what they are called."""
    assert (row.kind == "counter") == row.signal.endswith("_total")
    assert row.unit in row.signal or row.unit in ("events", "ratio", "requests", "chunks", "keys")
    assert row.meaning.endswith(".")


def test_default_edges_are_those_of_the_0_32_page() -> None:
    for row in vllm.NAMES:
        if row.signal not in vllm.DEFAULT_EDGES:
            continue
        lines = [ln for ln in fixture("vllm_0.32_cpu").splitlines() if ln.startswith(f"vllm:{row.names[0]}_bucket")]
        edges = tuple(float(line.partition('le="')[2].partition('"')[0]) for line in lines)
        assert edges[:-1] == vllm.DEFAULT_EDGES[row.signal], row.signal


def test_the_document_is_the_one_generated_from_the_tables() -> None:
    """Mend: python -m probes.names.document > docs/signals.md."""
    document = Path(__file__).parents[2] / "docs" / "signals.md"
    assert document.read_text(encoding="utf-8") == signals_document()


def test_the_document_names_every_signal() -> None:
    rows = [*vllm.NAMES, *lmcache.NAMES, *lmcache_inprocess.NAMES]
    assert [row.signal for row in rows if f"| `{row.signal}` |" not in signals_document()] == []


def test_never_a_gauge_that_lies_when_idle() -> None:
    """LMCache#1260: in one process retrieve_hit_rate reads 1 and lookup_hit_rate 0 when nothing happens."""
    names = {name for row in lmcache_inprocess.NAMES for name in row.names}
    assert not {name for name in names if "hit_rate" in name}


def test_what_is_milliseconds_on_the_page_is_seconds_with_us() -> None:
    """remote_time_to_*: the in-process family's only milliseconds (observability.py of 0.5.6)."""
    scaled = {name: row.scale for row in lmcache_inprocess.NAMES for name in row.names if row.scale != 1}
    assert scaled == {"remote_time_to_get": 0.001, "remote_time_to_put": 0.001}
