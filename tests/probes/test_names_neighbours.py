"""The names tables of what stands beside vLLM: every name is on a captured page, or the reason why not is here."""

from collections.abc import Iterator

import pytest
from page_files import fixture, shared

from probes.books import BOOKS, System
from probes.names.table import Name

PAGES: dict[System, tuple[str, ...]] = {
    "mooncake": ("mooncake/mooncake_master.prom", "mooncake/mooncake_client.prom"),
    "dynamo_frontend": (
        "dynamo/dynamo_frontend.prom",
        "dynamo/dynamo_agg_workerkilled_3s_frontend.prom",
    ),
    "dynamo_worker": ("dynamo/dynamo_pd_decode1.prom",),
    "vllm_router": ("vllm_router/vllm_router.prom", "vllm_router/vllm_router_pd.prom"),
}
NOT_CAPTURED = {
    "vllm_router_request_errors_total": "only after such an attempt; in the code of vllm-project/router",
    "vllm_router_pd_errors_total": "only after such an error; in the code of vllm-project/router",
    "vllm_router_pd_prefill_errors_total": "only after such an error; in the code of vllm-project/router",
    "vllm_router_pd_stream_errors_total": "only after such an error; in the code of vllm-project/router",
}
BUILT = {
    "dcgm": "dcgm_documented",
    "production_stack_router": "production_stack_router_documented",
}


def rows(system: System) -> Iterator[Name]:
    """Those of its own: an engine's are held elsewhere."""
    yield from (row for family in BOOKS[system].families if family.prefixes == ("",) for row in family.names)


def names_on(text: str) -> set[str]:
    return {line.partition("{")[0].partition(" ")[0] for line in text.splitlines()}


def exposed(row: Name, name: str) -> str:
    return f"{name}_bucket" if row.kind == "histogram" else name


@pytest.mark.parametrize("system", list(PAGES))
def test_every_name_stands_on_a_captured_page(system: System) -> None:
    on_pages = set().union(*(names_on(shared(f"pages/{page}").read_text()) for page in PAGES[system]))
    missing = {name for row in rows(system) for name in row.names if exposed(row, name) not in on_pages}
    assert missing <= set(NOT_CAPTURED)


@pytest.mark.parametrize("system", list(BUILT))
def test_the_pages_built_from_documents_hold_every_name(system: System) -> None:
    on_page = names_on(fixture(BUILT[system]))
    assert [name for row in rows(system) for name in row.names if exposed(row, name) not in on_page] == []


def test_every_system_has_its_names_held() -> None:
    """The endpoint picker's stand on its own test pages, a fragment each (test_inspection_golden)."""
    assert set(PAGES) | set(BUILT) | {"vllm", "lmcache", "llm_d_epp"} == set(BOOKS)


@pytest.mark.parametrize("system", list(BOOKS))
def test_a_signal_has_one_row_and_a_name_one_signal(system: System) -> None:
    for family in BOOKS[system].families:
        signals, names = [row.signal for row in family.names], [name for row in family.names for name in row.names]
        assert len(set(signals)) == len(signals)
        assert len(set(names)) == len(names)
