"""docs/h200.md holds what the recording gives today: every client percentile inside bounds that cannot be narrower."""

from pathlib import Path

from h200 import needs_h200
from h200_table import document, rows

DOCUMENT = Path(__file__).parents[2] / "docs" / "h200.md"


@needs_h200
def test_the_document_is_what_the_recording_gives() -> None:
    """Mend: PYTHONPATH=.:tests/agent python tests/agent/h200_table.py > docs/h200.md."""
    assert DOCUMENT.read_text(encoding="utf-8") == document()


@needs_h200
def test_every_percentile_is_held_by_bounds_as_narrow_as_the_buckets_allow() -> None:
    found = list(rows())
    assert len(found) == 66
    assert [row for row in found if not (row.holds and row.is_narrow_enough)] == []
