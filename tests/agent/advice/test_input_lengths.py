"""Lengths of prompts that stand for all of them, from a histogram of them."""

from math import inf

import pytest

from agent.advice.tier_facts import LENGTHS, input_lengths
from agent.stats.buckets import Buckets


def test_they_have_the_mean_that_was_counted() -> None:
    lengths = input_lengths(Buckets((100.0, 1_000.0, inf), (60.0, 40.0, 0.0), 20_000.0))
    assert len(lengths) == LENGTHS
    assert sum(lengths) / LENGTHS == pytest.approx(200.0)


@pytest.mark.parametrize("edges", [(inf,), (0.0, inf)])
def test_where_no_bucket_has_an_end_they_are_not_told(edges: tuple[float, ...]) -> None:
    """Such as where somebody dropped all buckets but +Inf to save series."""
    assert input_lengths(Buckets(edges, (*(0.0 for _ in edges[1:]), 100.0), 20_000.0)) == ()
