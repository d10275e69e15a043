"""What a cache of any size would find, from what pages count of the caches that there are."""

from itertools import pairwise
from math import exp

import pytest

from agent.advice.reuse import ReuseCurve
from agent.advice.reuse_counts import Found, curve_with_tier, curve_without_tier, engine_memory_seconds, found_of
from agent.signals.sums import Sums
from agent.stats.buckets import Buckets
from agent.windows import EngineKey, Increment

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


def page(source: str, counters: dict[str, float], histograms: dict[str, Buckets | None]) -> Sums:
    """What ten minutes of pages add up to."""
    rises, seen = {(name, ""): value for name, value in counters.items()}, {k: v for k, v in histograms.items() if v}
    return Sums([Increment(EngineKey("t", source, "0", "m"), 0.0, 600.0, rises, seen, {}, restarted=False)])


def engine_pages(remembers: float, *, gaps_are_told: bool = True, idle_is_told: bool = True, without: str = "") -> Sums:
    """A million prompt tokens, of which 30 % were found; a block was reused 0.43 times on average before it went."""
    gaps = exponential(400.0, remembers)
    assert gaps.total is not None
    life = 1_000 * (remembers + 0.43 * gaps.total / 400)
    lives = (1_000.0, *[0.0] * 9)
    rises = {
        "prefix_cache_queried_tokens_total": 1e6,
        "prefix_cache_hit_tokens_total": 0.3e6,
        "prompt_tokens_total": 1e6,
        "generation_tokens_total": 0.0,
    }
    return page(
        "vllm",
        {name: rise for name, rise in rises.items() if name != without},
        {
            "kv_block_reuse_gap_seconds": gaps if gaps_are_told else None,
            "kv_block_lifetime_seconds": Buckets(EDGES, lives, life),
            "kv_block_idle_before_evict_seconds": Buckets(EDGES, lives, 1_000 * remembers) if idle_is_told else None,
        },
    )


def cache_page(idle: float, missed: Buckets | None, evicted: float = 0.0) -> Sums:
    """A tier that remembers for 60 s; of `evicted` chunks so many told how long they had been idle."""
    counts = (0.0,) * 6 + (idle,) + (0.0,) * 3
    return page(
        "lmcache",
        {"cache_evicted_chunks_total": evicted},
        {
            "cache_reuse_gap_seconds": exponential(1_000.0, 60.0),
            "cache_idle_before_evict_seconds": Buckets(EDGES, counts, 60.0 * idle) if idle else None,
            "cache_evict_reuse_gap_seconds": missed,
        },
    )


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


@pytest.mark.parametrize("without", ["prompt_tokens_total", "prefix_cache_hit_tokens_total", "generation_tokens_total"])
def test_without_a_counter_of_what_was_written_the_blocks_tell_nothing_beyond(without: str) -> None:
    """A counter that a page leaves out is no zero."""
    assert curve_without_tier(engine_pages(30.0, without=without), FOUND, 30.0).found_ratio(1_000.0) is None


def test_without_kv_cache_metrics_the_engines_tell_nothing_beyond_their_memory() -> None:
    sums = engine_pages(30.0, gaps_are_told=False)
    assert curve_without_tier(sums, FOUND, 30.0).found_ratio(60.0) is None


def test_how_long_an_engine_remembers_is_measured_or_its_free_room_over_what_comes_in() -> None:
    assert engine_memory_seconds(engine_pages(30.0), 1e6, 1) == pytest.approx(30.0)
    blind = engine_pages(30.0, idle_is_told=False)
    assert engine_memory_seconds(blind, 1e6, 1) is None, "without its usage the room is not known"


def test_a_tier_from_which_nothing_was_evicted_is_large_enough() -> None:
    found = Found(1e6, 0.3, 0.2, 600.0)
    curve = curve_with_tier(Sums(), cache_page(0, None), found, 10.0, None)
    assert curve is not None
    assert curve.found_ratio(float("inf")) == pytest.approx(0.5)
    assert curve.found_ratio(10.0) == pytest.approx(0.3)


def test_a_few_sampled_evictions_are_many_real_ones_and_no_proof_of_room() -> None:
    """LMCache follows one chunk in a hundred: twenty that went are two thousand."""
    curve = curve_with_tier(Sums(), cache_page(20.0, None, 2_000.0), Found(1e6, 0.3, 0.2, 600.0), 10.0, 40.0)
    assert curve is not None
    assert curve.ceiling is None


def test_chunks_that_are_asked_for_after_they_went_tell_what_a_larger_tier_finds() -> None:
    """Of 1,000 evicted chunks 400 came again within a minute: half of all was found, so a fifth more would be."""
    found = Found(1e6, 0.3, 0.2, 600.0)
    missed = Buckets((60.0, 120.0, 300.0, float("inf")), (400.0, 0.0, 600.0, 0.0), 0.0)
    curve = curve_with_tier(Sums(), cache_page(1_000.0, missed, 1_000.0), found, 10.0, None)
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
