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
    found = infer_token_budget(steps_up_to(2048.0), None, 300.0, STEPS, 6e-3)
    assert found.tokens == 2048
    assert "iteration_tokens_total" in found.words


def test_a_long_prompt_in_that_histogram_is_no_budget() -> None:
    """8,000 prompt tokens are counted in the step that ends them, though each step computed 2048."""
    found = infer_token_budget(steps_up_to(8192.0), gaps_up_to(0.075), 8000.0, STEPS, 6e-3)
    assert found.tokens == 2048, "a gap of 50 to 75 ms holds 1,760 to 2,760 tokens"
    assert "50 to 75 ms" in found.words


def test_prompts_begun_in_the_step_before_do_not_double_the_budget() -> None:
    """Prompts of 900 tokens and a budget of 2048: steps count up to 2,900, but none computes for longer than 57 ms."""
    found = infer_token_budget(steps_up_to(4096.0), gaps_up_to(0.075), 900.0, STEPS, 6e-3)
    assert (found.tokens, found.source) == (2048, "inferred")
    assert "no gap is as long as 4096 tokens" in found.words


def test_gaps_that_a_full_step_explains_leave_the_budget_as_it_is() -> None:
    found = infer_token_budget(steps_up_to(4096.0), gaps_up_to(0.15), 900.0, STEPS, 6e-3)
    assert found.tokens == 4096


def test_steps_that_are_full_by_chance_are_no_budget() -> None:
    """Under a light load 5 steps held 1,024 to 2,048 tokens, and 60 half as many: the budget is anything above."""
    light = Buckets(EDGES, (900.0, 300.0, 60.0, 5.0, 0.0, 0.0, 0.0, 0.0), None)
    assert infer_token_budget(light, None, 300.0, STEPS, 6e-3).source == "assumed"
    busy = Buckets(EDGES, (900.0, 300.0, 60.0, 90.0, 0.0, 0.0, 0.0, 0.0), None)
    assert infer_token_budget(busy, None, 300.0, STEPS, 6e-3).tokens == 2048


def test_steps_that_long_prompts_explain_are_no_budget() -> None:
    """The mean is 1,000 tokens, but thirty prompts were longer than 8,192: they alone make steps that count so many."""
    lengths = Buckets((1000.0, 10_000.0, 20_000.0, inf), (900.0, 30.0, 25.0, 0.0), None)
    found = infer_token_budget(steps_up_to(16384.0), None, 1000.0, STEPS, 6e-3, lengths)
    assert found.source == "assumed"
    few = Buckets(lengths.edges, (900.0, 2.0, 0.0, 0.0), None)
    assert infer_token_budget(steps_up_to(16384.0), None, 1000.0, STEPS, 6e-3, few).tokens == 16384


def test_gaps_of_shorter_prompts_before_do_not_make_the_budget_smaller() -> None:
    """Prompts of 1,000 tokens made gaps of 25 to 50 ms; now they are of 8,000, and eighty gaps of 57 ms came."""
    counts = [10_000.0, 0.0, 300.0, 80.0, *[0.0] * (len(GAPS) - 4)]
    mixed = Buckets(GAPS, tuple(counts), 10_000 * 0.006 + 300 * 0.03 + 80 * 0.057)
    assert infer_token_budget(None, mixed, 2300.0, STEPS, 6e-3).source == "assumed"


def test_gaps_that_hold_whole_prompts_only_tell_the_least() -> None:
    found = infer_token_budget(None, gaps_up_to(0.3), 8192.0, STEPS, 6e-3)
    assert found.tokens == 8192
    assert found.words.startswith("at least that")


@pytest.mark.parametrize("model", [None, STEPS])
def test_where_nothing_shows_it_vllms_default_is_assumed_and_said(model: StepModel | None) -> None:
    found = infer_token_budget(None, gaps_up_to(0.01), 300.0, model, 6e-3)
    assert found.tokens == 8192
    assert found.words.startswith("assumed")
