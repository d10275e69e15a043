"""Demand: lengths are means of what was told; what a page leaves out is no zero among them."""

from collections import deque
from dataclasses import replace

import pytest

from agent.advice.demand import KEPT_BINS, Demand, Mix, _Bin
from agent.stats.buckets import Buckets
from agent.windows import EngineKey, Increment

KEY = EngineKey("vllm-0", "vllm", "0", "m")
WHOLE = {
    ("prompt_tokens_total", ""): 30_000.0,
    ("prompt_tokens_by_source_total", "local_compute"): 15_000.0,
    ("generation_tokens_total", ""): 6_000.0,
    ("requests_finished_total", "stop"): 30.0,
}


def increment(to_seconds: float, *without: str) -> Increment:
    """30 requests in 10 s."""
    counters = {place: rise for place, rise in WHOLE.items() if place[0] not in without}
    ttft = Buckets((1.0, float("inf")), (30.0, 0.0), 3.0)
    gauges = {("requests_waiting", ""): 0.0, ("requests_running", ""): 4.0}
    return Increment(KEY, to_seconds - 10, to_seconds, counters, {"ttft_seconds": ttft}, gauges, restarted=False)


def test_the_mix_is_what_requests_were_made_of() -> None:
    demand = Demand()
    demand.take([increment(10.0), increment(20.0)])
    assert demand.mix(20.0) == Mix(1_000.0, 200.0, 0.5)


@pytest.mark.parametrize("left_out", ["prompt_tokens_total", "generation_tokens_total", "requests_finished_total"])
def test_a_page_without_a_counter_changes_no_mean(left_out: str) -> None:
    """It is not as if those requests had had no tokens."""
    demand = Demand()
    demand.take([increment(10.0), increment(20.0, left_out)])
    assert demand.mix(20.0) == Mix(1_000.0, 200.0, 0.5)


@pytest.mark.parametrize("generated", [0.0, 12.0])
def test_a_counter_of_tokens_that_stands_still_changes_no_mean(generated: float) -> None:
    """30 requests had their first token, so at least 30 were generated: fewer is not what happened."""
    stuck = increment(20.0)
    stuck = replace(stuck, counters={**stuck.counters, ("generation_tokens_total", ""): generated})
    demand = Demand()
    demand.take([increment(10.0), stuck])
    assert demand.mix(20.0) == Mix(1_000.0, 200.0, 0.5)


def test_without_a_count_of_what_was_computed_no_hits_are_claimed() -> None:
    demand = Demand()
    demand.take([increment(10.0, "prompt_tokens_by_source_total")])
    assert demand.mix(10.0) == Mix(1_000.0, 200.0, 0.0)


class Counting(deque[_Bin]):
    """Bins that know how many were ever made."""

    made = 0

    def append(self, each: _Bin) -> None:
        self.made += 1
        super().append(each)


@pytest.mark.parametrize("is_read", [True, False])
def test_a_leap_of_the_clock_takes_no_longer_than_what_is_kept(is_read: bool) -> None:  # noqa: FBT001
    """A machine that began in 2024 and learns that it is 2026: three million bins went by, of which nobody told."""
    bins, leap = Counting(maxlen=KEPT_BINS), 2 * 31_557_600.0
    demand = Demand(bins)
    demand.take([increment(10.0), increment(20.0), increment(30.0), increment(40.0)])
    demand.close(40.0, 1, 0.0)
    if is_read:
        demand.take([replace(increment(leap), from_seconds=40.0), increment(leap + 10), increment(leap + 20)])
    demand.close(leap + 40.0, 1, 0.0)
    assert bins.made <= 3 * KEPT_BINS
