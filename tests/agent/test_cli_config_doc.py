"""docs/config.md is the one generated from the config tree, and the tree leaves nothing unsaid."""

from pathlib import Path
from typing import Any

from agent.config import Config
from agent.config_doc import config_document

DOCUMENT = Path(__file__).parents[2] / "docs" / "config.md"


def test_the_document_is_the_one_generated_from_the_tree() -> None:
    """Mend: python -m agent.config_doc > docs/config.md."""
    assert DOCUMENT.read_text(encoding="utf-8") == config_document()


def test_every_key_of_every_part_stands_in_it() -> None:
    schema = Config.model_json_schema()
    parts: list[dict[str, Any]] = [schema, *schema["$defs"].values()]
    rows = [line for line in config_document().splitlines() if line.startswith("| `")]
    assert len(rows) == sum(len(part["properties"]) for part in parts)


def test_every_row_has_a_meaning_but_the_kind_of_a_part() -> None:
    rows = [line.strip("| ").split("|") for line in config_document().splitlines() if line.startswith("| `")]
    silent = [row[0].strip() for row in rows if len(row) < 4 or not row[3].strip()]
    assert set(silent) <= {"`kind`"}


def test_every_time_says_that_it_is_in_seconds() -> None:
    rows = [line for line in config_document().splitlines() if line.startswith("| `") and "_seconds`" in line]
    assert [row for row in rows if "econds" not in row.rpartition(" | ")[2]] == []
