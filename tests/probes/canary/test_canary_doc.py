"""docs/canaries.md is what the code and the tests say now."""

import re
from pathlib import Path

from canary_doc import canary_document

from probes.canary.kind_figures import KIND_FIGURES
from probes.canary.streaming_shape import shape
from probes.stream import ChatStream

PAGE = Path(__file__).parents[3] / "docs" / "canaries.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == canary_document()


def test_every_case_of_the_suite_has_a_test() -> None:
    told = {int(number) for number in re.findall(r"(?m)^\| (\d\d) \|", canary_document())}
    assert told == set(range(1, 79))


def test_figures_have_the_names_of_the_table() -> None:
    """The other kinds' are held to it in test_kinds.py."""
    assert set(shape(ChatStream())) == set(KIND_FIGURES["streaming_shape"])
