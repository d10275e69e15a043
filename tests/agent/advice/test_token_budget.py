"""The token budget is read where it shows, and said to be assumed where it does not."""

from math import inf

import pytest

from agent.advice.step_model import StepModel
from agent.advice.token_budget import infer_token_budget
from agent.stats.buckets import Buckets

STEPS = StepModel(5e-3, 25e-6, 0.0, 30e-9, is_split_known=True, error_ratio=0.0, samples=99)
EDGES = (1.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, inf)
GAPS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, inf)


def steps_up_to(edge: float) -> Buckets:
    counts = [0.0] * len(EDGES)
    counts[0], counts[EDGES.index(edge)] = 1000.0, 40.0
    return Buckets(EDGES, tuple(counts), None)


def gaps_up_to(edge: float) -> Buckets:
    counts = [0.0] * len(GAPS)
    counts[0], counts[GAPS.index(edge)] = 10_000.0, 200.0
    return Buckets(GAPS, tuple(counts), 10_000 * 0.006 + 200 * edge)


def test_short_prompts_fill_steps_up_to_the_budget() -> None:
    tokens, source = infer_token_budget(steps_up_to(2048.0), None, 300.0, STEPS, 6e-3)
    assert tokens == 2048
    assert "iteration_tokens_total" in source


def test_a_long_prompt_in_that_histogram_is_no_budget() -> None:
    """8,000 prompt tokens are counted in the step that ends them, though each step computed 2048."""
    tokens, source = infer_token_budget(steps_up_to(8192.0), gaps_up_to(0.075), 8000.0, STEPS, 6e-3)
    assert tokens == 2048, "a gap of 50 to 75 ms holds 1,760 to 2,760 tokens"
    assert "50 to 75 ms" in source


def test_gaps_that_hold_whole_prompts_only_tell_the_least() -> None:
    tokens, source = infer_token_budget(None, gaps_up_to(0.3), 8192.0, STEPS, 6e-3)
    assert tokens == 8192
    assert source.startswith("at least that")


@pytest.mark.parametrize("model", [None, STEPS])
def test_where_nothing_shows_it_vllms_default_is_assumed_and_said(model: StepModel | None) -> None:
    tokens, source = infer_token_budget(None, gaps_up_to(0.01), 300.0, model, 6e-3)
    assert tokens == 8192
    assert source.startswith("assumed")
