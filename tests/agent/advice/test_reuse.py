"""What a cache of any size would find, from what pages count of the caches that there are."""

from itertools import pairwise
from math import exp

import pytest

from agent.advice.reuse import ReuseCurve
from agent.advice.reuse_counts import Found, curve_with_tier, curve_without_tier, engine_memory_seconds, found_of
from agent.signals.sums import Sums
from agent.stats.buckets import Buckets

EDGES = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, float("inf"))
MEAN = 40.0
FOUND = Found(1e6, 0.3, 0.0, 600.0)


def exponential(count: float, most: float, edges: tuple[float, ...] = EDGES, mean: float = MEAN) -> Buckets:
    """So many gaps of an exponential law, none longer than `most`."""
    whole = 1 - exp(-most / mean)
    cut = [min(edge, most) for edge in (0.0, *edges)]
    counts = tuple(count * (exp(-a / mean) - exp(-b / mean)) / whole for a, b in pairwise(cut))
    total = count * (mean - most * exp(-most / mean) / whole)
    return Buckets(edges, counts, total)


def engine_pages(remembers: float) -> Sums:
    """A million prompt tokens, of which 30 % were found; blocks reused once on average before they went."""
    sums = Sums()
    sums.counters["prefix_cache_queried_tokens_total", ""] = 1e6
    sums.counters["prefix_cache_hit_tokens_total", ""] = 0.3e6
    sums.counters["prompt_tokens_total", ""] = 1e6
    gaps = exponential(400.0, remembers)
    assert gaps.total is not None
    sums.histograms["kv_block_reuse_gap_seconds"] = [gaps]
    life = 1_000 * (remembers + 0.43 * gaps.total / 400)
    sums.histograms["kv_block_lifetime_seconds"] = [Buckets(EDGES, (1_000.0, *[0.0] * 9), life)]
    sums.histograms["kv_block_idle_before_evict_seconds"] = [Buckets(EDGES, (1_000.0, *[0.0] * 9), 1_000 * remembers)]
    sums.spans["vllm"] = [(0.0, 600.0)]
    return sums


def cache_page(evicted: float, missed: Buckets | None) -> Sums:
    """A tier that remembers for 60 s."""
    sums = Sums()
    sums.histograms["cache_reuse_gap_seconds"] = [exponential(1_000.0, 60.0)]
    if evicted:
        idle = Buckets(EDGES, (0.0,) * 6 + (evicted,) + (0.0,) * 3, 60.0 * evicted)
        sums.histograms["cache_idle_before_evict_seconds"] = [idle]
    if missed is not None:
        sums.histograms["cache_evict_reuse_gap_seconds"] = [missed]
    return sums


def test_a_curve_is_read_both_ways() -> None:
    """Within 10 s up to half is found, so 7.5 s of what is asked are held; the next 10 s add half of theirs."""
    curve = ReuseCurve(10.0, ((10.0, 0.5),), 0.0, 1.0, "")
    assert curve.found_ratio(5.0) == pytest.approx(0.25)
    assert curve.held_seconds(10.0) == pytest.approx(7.5, rel=1e-3)
    assert curve.held_seconds(20.0) == pytest.approx(12.5, rel=1e-2)
    assert curve.seconds_of(12.5) == pytest.approx(20.0, rel=0.05)


def test_beyond_what_was_seen_nothing_is_said_where_nothing_tells() -> None:
    curve = ReuseCurve(10.0, ((10.0, 0.5),), None, 0.0, "")
    assert curve.found_ratio(11.0) is None
    assert curve.held_seconds(11.0) is None
    assert curve.ceiling is None
    assert curve.working_set_seconds() is None


def test_the_engines_blocks_tell_what_a_longer_memory_would_find() -> None:
    """Gaps of 40 s on average, of which the first 30 s are seen: as much again lies beyond."""
    curve = curve_without_tier(engine_pages(30.0), FOUND, 30.0)
    assert curve.found_ratio(30.0) == pytest.approx(0.3)
    longer = curve.found_ratio(1_000.0)
    assert longer is not None
    assert 0.3 + 0.1 < longer <= 0.3 + 0.35, "at most half of what is not found now"


def test_without_kv_cache_metrics_the_engines_tell_nothing_beyond_their_memory() -> None:
    sums = engine_pages(30.0)
    del sums.histograms["kv_block_reuse_gap_seconds"]
    assert curve_without_tier(sums, FOUND, 30.0).found_ratio(60.0) is None


def test_how_long_an_engine_remembers_is_measured_or_its_free_room_over_what_comes_in() -> None:
    sums = engine_pages(30.0)
    assert engine_memory_seconds(sums, 1e6, 1) == pytest.approx(30.0)
    del sums.histograms["kv_block_idle_before_evict_seconds"]
    assert engine_memory_seconds(sums, 1e6, 1) is None, "without its usage the room is not known"


def test_a_tier_from_which_nothing_was_evicted_is_large_enough() -> None:
    found = Found(1e6, 0.3, 0.2, 600.0)
    curve = curve_with_tier(Sums(), cache_page(0, None), found, 10.0, None)
    assert curve is not None
    assert curve.found_ratio(float("inf")) == pytest.approx(0.5)
    assert curve.found_ratio(10.0) == pytest.approx(0.3)


def test_chunks_that_are_asked_for_after_they_went_tell_what_a_larger_tier_finds() -> None:
    """Of 1,000 evicted chunks 400 came again within a minute: half of all was found, so a fifth more would be."""
    found = Found(1e6, 0.3, 0.2, 600.0)
    missed = Buckets((60.0, 120.0, 300.0, float("inf")), (400.0, 0.0, 600.0, 0.0), 0.0)
    curve = curve_with_tier(Sums(), cache_page(1_000.0, missed), found, 10.0, None)
    assert curve is not None
    assert curve.found_ratio(curve.remembered_seconds) == pytest.approx(0.5)
    assert curve.found_ratio(120.0) == pytest.approx(0.7)


def test_a_tier_without_a_page_tells_of_its_own_size_only() -> None:
    curve = curve_with_tier(Sums(), Sums(), Found(1e6, 0.3, 0.2, 600.0), 10.0, 40.0)
    assert curve is not None
    assert curve.found_ratio(curve.remembered_seconds) == pytest.approx(0.5)
    assert curve.found_ratio(2 * curve.remembered_seconds) is None
    assert curve_with_tier(Sums(), Sums(), FOUND, 10.0, None) is None


def test_no_lookups_no_reuse() -> None:
    assert found_of(Sums()) is None
