"""The scale rule on an hour of the simulator's own pages, through tick() as it runs."""

from itertools import pairwise
from typing import Any

import pytest
from watched_fleet import T0, WatchedFleet

from agent.model import Figure, Recommendation
from agent.signals.sums import add_up
from agent.simulator.seeds import stream
from agent.stats.buckets import percentile

STEADY_RATE = 3.5  # one replica of this plant keeps the promise, if barely; the rule asks for two or three, to be sure


def steady(_: float) -> float:
    return STEADY_RATE


def test_a_steady_load_comes_to_rest() -> None:
    """dynamo PR #9294, llm-d #1352: no oscillation under constant load; from four replicas down, and then nothing."""
    fleet = WatchedFleet(steady, 4)
    for _ in range(18):
        wish = fleet.go(60.0)
        if wish is not None and wish.value != wish.current:
            fleet.scale(wish.value)
    counts = [wish.value for wish in fleet.wishes]
    turns = [b - a for a, b in pairwise(counts) if a != b]
    assert counts[-1] in (1, 2, 3)
    assert sum(a * b < 0 for a, b in pairwise(turns)) <= 1
    assert len(set(counts[-60:])) == 1


def test_with_all_scrapes_the_fleet_shrinks() -> None:
    """Four replicas where three would do: what the following tests are held against."""
    fleet = WatchedFleet(steady, 4)
    fleet.go(600.0)
    assert {wish.value for wish in fleet.wishes} == {4, 3}


@pytest.mark.parametrize("loss", [0.1, 0.5, 1.0])
def test_scrape_loss_never_shrinks_anything(loss: float) -> None:
    """While 10, 50 or 100 % of the scrapes fail, none is given up."""
    rng = stream(3, "loss")
    fleet = WatchedFleet(steady, 4, fails=lambda _name, at: at > T0 + 180 and rng.random() < loss)
    fleet.go(600.0)
    assert {wish.value for wish in fleet.wishes} == {4}
    assert fleet.wishes[-1].reason in ("bad_data", "holding", "no_model")


@pytest.mark.parametrize("name", ["time_to_first_token", "num_requests_waiting"])
def test_pages_that_no_longer_tell_the_load_never_shrink_anything(name: str) -> None:
    """Every page is read, but what arrivals are counted by is gone (another vLLM, a proxy that filters): no load is
    known, and the last one that was does not stand for it.
    """
    fleet = WatchedFleet(steady, 4, hides=lambda line, at: at > T0 + 180 and name in line)
    fleet.go(600.0)
    assert {wish.value for wish in fleet.wishes} == {4}
    assert (fleet.wishes[-1].reason, fleet.wishes[-1].confidence) == ("bad_data", 0.0)


def test_lost_replicas_are_not_said_to_carry_anything() -> None:
    """Two of five never answer again: what is there carries as three do, and so does what is advised less two."""
    fleet = WatchedFleet(
        lambda seconds: 8.0 if seconds < 600 else 28.0, 5, lambda name, at: at > T0 + 180 and name[-1] in "34"
    )
    fleet.go(760.0)
    advice = next(e for e in fleet.memory.ledger.entries if dict(known(e)).get("replicas_lost") == 2)
    figures = known(advice)
    carries, foreseen = figures["carried_per_replica_low_per_second"], figures["forecast_arrival_rate_q90_per_second"]
    assert advice.current == 5
    assert f"3 replicas carry {3 * carries:.1f} requests/s" in str(advice.do_nothing["summary"])
    assert 3 * carries < foreseen
    assert advice.do_nothing["meets_slo"] is not True
    assert advice.meets_slo is not True or (advice.proposed - 2) * carries >= foreseen
    for other in advice.alternatives:
        count = int(str(other["setting"]).split()[0])
        assert other["meets_slo"] is not True or (count - 2) * carries >= foreseen
    assert "2 of the 5 are lost" in advice.summary


def known(advice: Recommendation) -> dict[str, float | None]:
    return {evidence.signal: evidence.value for evidence in advice.evidence}


def test_explicit_zero_traffic_shrinks_to_one() -> None:
    """dynamo #6985, aibrix #593: no traffic, told by pages that are read, is data."""
    fleet = WatchedFleet(lambda seconds: STEADY_RATE if seconds < 300 else 0.0, 4)
    for _ in range(20):
        wish = fleet.go(60.0)
        if wish is not None and wish.value != wish.current:
            fleet.scale(wish.value)
    assert fleet.wishes[-1].current == 1


def test_a_jump_is_answered_within_a_minute_with_evidence() -> None:
    """llm-d #399: current and proposed, the figures behind it, what it costs, how to undo it."""
    fleet = WatchedFleet(lambda seconds: 4.0 if seconds < 600 else 16.0, 3, args="--max-num-batched-tokens 2048")
    fleet.go(600.0)
    before = len(fleet.memory.ledger.entries)
    fleet.go(65.0)
    advice = [entry for entry in fleet.memory.ledger.entries[before:] if entry.proposed > entry.current][-1]
    assert advice.reason_code == "scale_out"
    assert advice.current == 3
    assert 5 <= advice.proposed <= 7
    known = {evidence.signal: evidence.value for evidence in advice.evidence}
    assert known["forecast_arrival_rate_q90_per_second"] == pytest.approx(20.0, rel=0.4)
    assert known["max_num_batched_tokens:config"] == 2048, "what the model took, and who said so"
    assert advice.alternatives[0]["dollars_per_hour"] is not None
    assert advice.rollback == "set the replica count of m (aggregated) back to 3"
    settings = {str(other["setting"]): other for other in advice.alternatives}
    assert settings["3 replicas"]["meets_slo"] is False
    assert advice.do_nothing["ttft_p95_seconds"] == settings["3 replicas"]["ttft_p95_seconds"]
    fleet.scale(int(advice.proposed))
    fleet.go(240.0)
    for signal, quantile in (("ttft", 0.95), ("itl", 0.99)):
        said: Any = settings[f"{advice.proposed:.0f} replicas"][f"{signal}_p{100 * quantile:.0f}_interval_seconds"]
        came = seen(fleet, f"{signal}_seconds", quantile)
        assert came.low is not None
        assert came.high is not None
        assert said[0] <= came.high
        assert came.low <= said[1]


def seen(fleet: WatchedFleet, signal: str, quantile: float) -> Figure:
    """The percentile that the engines' own histograms prove of the last two minutes."""
    now = fleet.now_seconds
    buckets = add_up(fleet.memory.windows.between(now - 120, now, fleet.plan.targets)).histogram(signal)
    found = None if buckets is None else percentile(buckets, quantile)
    assert found is not None
    return found


def test_dead_replicas_that_are_no_longer_watched_ask_for_nothing() -> None:
    """llm-d #368: the metrics of dead pods read as load, and the count went up and down without any."""
    fleet = WatchedFleet(lambda seconds: 10.0 if seconds < 600 else 1.0, 4)
    fleet.go(900.0)
    fleet.scale(1)
    wish = fleet.go(400.0)
    assert wish is not None
    assert wish.value == 1
