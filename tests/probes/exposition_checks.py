"""What holds for every text whatever: it is read without an error, the same way twice, and nothing in it is made up."""

import math
from collections.abc import Mapping

from probes.exposition import PageParser
from probes.page import BOOKS, System, SystemPage


def check(text: str) -> None:
    """Raises AssertionError, or whatever the parser raises, where it does not."""
    check_parser(text)
    other = sorted(BOOKS)[len(text) % len(BOOKS)]
    check_page("vllm", text)
    check_page(other, text)


def check_page(system: System, text: str) -> None:
    """Only finite numbers from 0 on, and histograms that rise; the second look gives what the first gave."""
    page = SystemPage(system)
    first, second = (page.read(text, "a", at) for at in (1.0, 2.0))
    assert (first.outcome, first.samples, first.histograms) == (second.outcome, second.samples, second.histograms)
    assert all(math.isfinite(sample.value) and sample.value >= 0 for sample in first.samples)
    for histogram in first.histograms:
        assert histogram.edges[-1] == math.inf
        assert list(histogram.counts) == sorted(histogram.counts)


def check_parser(text: str) -> None:
    """From memory it reads as at first sight; every line is a series, a comment, blank or malformed."""
    parser: PageParser[tuple[str, frozenset[tuple[str, str]]]] = PageParser(_everything)
    first, second = parser.parse(text), parser.parse(text)
    assert first == second
    assert all(math.isfinite(value) for value in first.values.values())
    assert first.series + first.malformed <= 2 * (text.count("\n") + 1)
    assert len(first.values) + first.duplicates + first.not_finite <= first.series


def _everything(name: str, labels: Mapping[str, str]) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())
