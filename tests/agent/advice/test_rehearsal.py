"""A rehearsal has the answers of arithmetic where there is arithmetic."""

from dataclasses import replace

import pytest

from agent.advice.rehearsal import EngineLimits, Load, rehearse
from agent.advice.step_model import StepModel
from agent.stats.weighted import weighted_mean, weighted_percentiles, weighted_share_over

STEPS = StepModel(5e-3, 25e-6, 0.0, 30e-9, is_split_known=True, error_ratio=0.0, samples=100)
LIMITS = EngineLimits(token_budget=8192, max_sequences=256, kv_tokens=570_000)
ALONE = Load(4000, 100, concurrency=1)


def test_one_user_waits_for_its_prompt_and_then_has_bare_decode_steps() -> None:
    """TTFT: front end 10 ms + T0 5 + 4000 x 25 us + 4000 x 30 ns = 115.12 ms; ITL: 5 ms + about 4050 x 30 ns."""
    run = rehearse(STEPS, LIMITS, ALONE, front_end_seconds=0.01)
    assert weighted_mean(run.ttfts) == pytest.approx(0.11512)
    assert weighted_mean(run.gaps) == pytest.approx(5e-3 + 4051 * 30e-9, rel=1e-3)
    assert (run.requests, run.output_tokens) == (3, 300)


def test_every_request_has_its_tokens_whatever_the_load() -> None:
    """Each of r requests has o - 1 gaps."""
    for concurrency in (1, 3, 40):
        run = rehearse(STEPS, LIMITS, replace(ALONE, concurrency=concurrency))
        assert run.requests == 3 * concurrency
        assert sum(times for _, times in run.gaps) == 3 * concurrency * 99


def test_two_users_share_one_prefill_step_between_them() -> None:
    """Both come at once: one step computes 8000 tokens, so both have the same TTFT and no gap holds a prefill."""
    run = rehearse(STEPS, LIMITS, Load(4000, 100, concurrency=2))
    assert run.ttfts[0] == run.ttfts[1]
    assert weighted_percentiles(run.gaps, [1.0])[0] == pytest.approx(5e-3 + 8200 * 30e-9, rel=0.01)


def test_a_smaller_token_budget_has_shorter_and_more_long_gaps() -> None:
    """Chunks of 2048 instead of 8192: p99 falls to about a quarter, and more gaps hold a prefill."""
    load = Load(8192, 512, concurrency=24, spread_ratio=0.3)
    whole, parts = (rehearse(STEPS, replace(LIMITS, token_budget=b), load) for b in (8192, 2048))
    whole_p99, parts_p99 = (weighted_percentiles(run.gaps, [0.99])[0] for run in (whole, parts))
    assert whole_p99 is not None
    assert parts_p99 is not None
    assert parts_p99 < 0.4 * whole_p99
    shares = [weighted_share_over(run.gaps, 0.03) for run in (whole, parts)]
    assert shares[0] is not None
    assert shares[1] is not None
    assert shares[1] > 2 * shares[0]


def test_a_full_kv_cache_keeps_the_queue_waiting() -> None:
    """Room for two requests of 4100 tokens: the third waits for one of them to end."""
    run = rehearse(STEPS, replace(LIMITS, kv_tokens=9000), Load(4000, 100, concurrency=3))
    assert run.waits_for == "kv"
    assert run.most_sequences == 2
    assert run.requests == 9


def test_those_that_outgrow_the_cache_are_computed_again_and_lose_no_token() -> None:
    """Three of 1000 + 1000 tokens in 4500: the youngest gives way, and all have their 999 gaps or their wait."""
    run = rehearse(STEPS, replace(LIMITS, kv_tokens=4500), Load(1000, 1000, concurrency=3))
    assert (run.requests, run.output_tokens, run.is_over) == (9, 9000, True)


def test_a_prompt_that_never_fits_never_ends() -> None:
    assert not rehearse(STEPS, replace(LIMITS, kv_tokens=3000), ALONE).is_over


def test_the_same_question_has_the_same_answer() -> None:
    load = Load(1000, 200, rate=4.0, spread_ratio=0.5)
    assert rehearse(STEPS, LIMITS, load).gaps == rehearse(STEPS, LIMITS, load).gaps


def test_kv_in_a_tier_comes_over_a_link_that_does_one_after_the_other() -> None:
    """Two at once, each 2,000 of 4,000 tokens at 100 us: the first waits 0.25 s with latency, the second 0.45 s."""
    load = replace(ALONE, concurrency=2, hit_ratio=0.5, fetch_ratio=1.0, fetch_seconds_per_token=1e-4)
    run = rehearse(STEPS, LIMITS, replace(load, fetch_latency_seconds=0.05))
    computed = 5e-3 + 2_000 * 25e-6
    assert sorted(ttft for ttft, _ in run.ttfts[:2]) == pytest.approx([0.25 + computed, 0.45 + computed], rel=0.01)


def test_without_a_tier_found_kv_is_there_at_once() -> None:
    run = rehearse(STEPS, LIMITS, replace(ALONE, hit_ratio=0.5, fetch_latency_seconds=0.05))
    assert weighted_mean(run.ttfts) == pytest.approx(5e-3 + 2_000 * 25e-6 + 4_000 * 30e-9)


def test_of_a_prompt_that_came_before_its_end_is_computed() -> None:
    """Every second prompt is known but for a tenth; that is 45 % of all tokens."""
    load = replace(ALONE, hit_ratio=0.45, hits_are_whole=True, hit_depth_ratio=0.9)
    ttfts = sorted(ttft for ttft, _ in rehearse(STEPS, LIMITS, load).ttfts)
    known, new = (5e-3 + tokens * 25e-6 + 4_000 * 30e-9 for tokens in (400, 4_000))
    assert ttfts[0] == pytest.approx(known)
    assert ttfts[-1] == pytest.approx(new)


def test_prompts_have_the_lengths_that_are_given() -> None:
    run = rehearse(STEPS, LIMITS, replace(ALONE, input_lengths=(1_000.0, 3_000.0)))
    either = [5e-3 + tokens * (25e-6 + 30e-9) for tokens in (1_000, 3_000)]
    assert all(any(ttft == pytest.approx(one) for one in either) for ttft, _ in run.ttfts)
