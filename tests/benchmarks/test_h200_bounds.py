"""The clients' percentiles of a real H200 beside the agent's bounds, as one table."""

# ruff: noqa: T201 - a benchmark prints

from h200 import needs_h200
from h200_table import document


@needs_h200
def test_the_table_of_clients_and_bounds() -> None:
    """TTFT and E2E less the mean difference between client and server, which is printed."""
    table = document()
    print("\n" + table)
    assert "MISSED" not in table
