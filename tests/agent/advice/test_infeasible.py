"""Promises that no number of replicas keeps: told in words that hold for any threshold."""

from dataclasses import replace

import pytest
from watched_fleet import SLOS, WatchedFleet


@pytest.mark.parametrize(("threshold", "is_told"), [(0.05, True), (0.0, False)])
def test_it_is_told_how_far_off_a_promise_is_where_that_is_a_number(threshold: float, is_told: bool) -> None:  # noqa: FBT001
    """Every first token in 50 ms, where a prompt alone takes three times that; and in none at all: no ratio, and no
    crash of the tick.
    """
    fleet = WatchedFleet(
        lambda _: 2.4, 1, slos=(replace(SLOS[0], threshold_seconds=threshold),), ticks_every=float("inf")
    )
    fleet.go(300.0)
    (advice,) = [a for a in fleet.effects[-1].changed_recommendations if a.reason_code == "infeasible_slo"]
    assert advice.summary.startswith("No number of replicas keeps ttft: a prompt of ")
    assert ("times its threshold" in advice.summary) is is_told
    assert advice.meets_slo is False
