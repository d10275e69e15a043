"""Stretches: only busy time, only what is known, and no engine before and after a restart."""

from dataclasses import replace

import pytest

from agent.advice.step_samples import SampleBook, Sampler, StepSample, prefilled_tokens
from agent.stats.buckets import Buckets
from agent.windows import EngineKey, Increment

KEY = EngineKey("vllm-0", "vllm", "0", "m")


def increment(to_seconds: float, *, running: float = 4.0, seconds: float = 1.0, steps: float = 100.0) -> Increment:
    return Increment(
        KEY,
        to_seconds - seconds,
        to_seconds,
        {("prompt_tokens_by_source_total", "local_compute"): 500.0, ("generation_tokens_total", ""): 401.0},
        {
            "step_tokens": Buckets((1.0, float("inf")), (0.0, steps), None),
            "ttft_seconds": Buckets((1.0, float("inf")), (1.0, 0.0), 0.3),
        },
        {("requests_running", ""): running, ("kv_usage_ratio", ""): 0.25, ("kv_capacity_tokens", ""): 10_000.0},
        restarted=False,
    )


def test_a_stretch_is_at_least_two_and_a_half_seconds_and_ends_at_every_reading() -> None:
    """Of 5 readings a second apart the first is a baseline; 3 and 3 s follow. First tokens are no decoded ones."""
    sampler = Sampler()
    taken = [sampler.take(increment(at)) for at in (1.0, 2.0, 3.0, 4.0, 5.0)]
    assert taken[:3] == [None, None, None]
    assert taken[3] == StepSample(4.0, 3.0, 300.0, 1500.0, 1200.0, 300 * 2500.0, 4.0)
    assert taken[4] == StepSample(5.0, 3.0, 300.0, 1500.0, 1200.0, 300 * 2500.0, 4.0)


@pytest.mark.parametrize("disturbed", ["idle", "restart", "no_steps", "no_gauge"])
def test_what_is_not_known_to_be_busy_breaks_the_stretch(disturbed: str) -> None:
    odd = increment(4.0)
    if disturbed == "idle":
        odd = increment(4.0, running=0.0)
    elif disturbed == "restart":
        odd = replace(odd, restarted=True)
    elif disturbed == "no_steps":
        odd = replace(odd, histograms={})
    else:
        odd = replace(odd, gauges={})
    sampler = Sampler()
    taken = [sampler.take(i) for i in (increment(1.0), increment(2.0), increment(3.0), odd, increment(5.0))]
    assert taken == [None] * 5


def test_one_request_seen_every_ten_seconds_may_have_come_and_gone() -> None:
    """With readings 10 s apart, one running request in each is no proof of a busy engine; two are taken as one."""
    for running, is_busy in ((1.0, False), (2.0, True)):
        sampler = Sampler()
        sampler.take(increment(10.0, running=running, seconds=10.0))
        assert (sampler.take(increment(20.0, running=running, seconds=10.0)) is not None) is is_busy


def test_time_in_which_the_loop_posted_transfers_is_no_step_time() -> None:
    """0.4 s of each second went into posts."""
    sampler, posts = Sampler(), Buckets((1.0, float("inf")), (4.0, 0.0), 0.4)
    taken = None
    for at in range(1, 8):
        plain = increment(float(at))
        taken = sampler.take(replace(plain, histograms={**plain.histograms, "nixl_post_seconds": posts}))
    assert taken is not None
    assert taken.seconds == pytest.approx(0.6 * taken.steps / 100)


def test_a_book_keeps_the_newest_of_every_kind_of_load() -> None:
    """A thousand stretches of one load do not push out the few of another."""
    book = SampleBook()
    book.add(StepSample(0.0, 3.0, 100.0, 0.0, 3200.0, 1e8))
    for at in range(1000):
        book.add(StepSample(float(at), 3.0, 300.0, 300.0, 300.0, 1e5))
    kept = book.samples
    assert kept[0].kv_token_steps == 1e8
    assert 20 <= len(kept) <= 30
    assert kept[-1].at_seconds == 999.0


def test_without_a_count_of_hits_nobody_knows_what_was_computed() -> None:
    """An older page tells prompts and hits apart; one without hits tells of neither."""
    prompts, hits = {("prompt_tokens_total", ""): 900.0}, {("prefix_cache_hit_tokens_total", ""): 500.0}
    assert prefilled_tokens(replace(increment(1.0), counters=prompts | hits)) == 400.0
    assert prefilled_tokens(replace(increment(1.0), counters=prompts)) is None


def test_counters_without_an_end_are_no_stretch() -> None:
    """Each is a finite number; what they make together is not."""
    absurd = {("prompt_tokens_by_source_total", "local_compute"): 1e308, ("generation_tokens_total", ""): 1e308}
    sampler = Sampler()
    taken = [sampler.take(replace(increment(float(at)), counters=absurd)) for at in range(1, 6)]
    assert taken == [None] * 5
