"""The suite's cases B to M; A is test_burn_tables.py, I the tests of the output, and the rest of D takes dice."""

from collections.abc import Callable, Iterator

import pytest
from conformance_budgets import budgets, replicas, traffic, young
from conformance_counting import counters, gaps
from conformance_exclusions import exclusions
from conformance_low_traffic import lone_failures, silence
from conformance_others import pages
from conformance_restart import configs, restarts, without_for
from conformance_row import Row

TABLES = (
    budgets,
    traffic,
    lone_failures,
    silence,
    young,
    counters,
    gaps,
    restarts,
    configs,
    exclusions,
    without_for,
    replicas,
)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_case_of_the_suite(table: Callable[[], Iterator[Row]]) -> None:
    assert [row for row in table() if not row.is_same] == []


@pytest.mark.real
def test_page_pairs_beside_those_of_sloth_and_pyrra() -> None:
    """Ours as the formulas say; theirs run by promtool: Sloth's the same in one alert, Pyrra's later for its `for`."""
    rows = list(pages())
    assert [row for row in rows if not row.is_same] == []
    assert rows[0].other == "Sloth: 60..2385; Pyrra: 180..885, 1065..2385"
