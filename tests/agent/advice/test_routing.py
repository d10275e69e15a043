"""A broken balance is told with each replica's share, and never where too little was seen."""

import pytest
from alike_fleet import alike_fleet, said
from split_fleet import scene_of
from watched_fleet import T0, WatchedFleet

from agent.advice.applied import was_applied
from agent.advice.routing import routing
from agent.simulator.router import LeastLoad, Skewed
from agent.simulator.seeds import stream


def skewed(**more: object) -> WatchedFleet:
    """80 % to one of two replicas (llm-d PR #1171 had 85 to 15)."""
    return alike_fleet(2, 1.2, lambda: Skewed(stream(1, "router")), weights=(0.8, 0.2), **more)


def test_from_pages_to_advice_to_its_verdict() -> None:
    """80 to 20: one replica is the slower for it; the balance is repaired, and judged 15 minutes later."""
    fleet = skewed()
    fleet.go(600.0)
    (advice,) = said(fleet, "route")
    evidence = {e.signal: e.value for e in advice.evidence}
    first, second = evidence["requests:sim-0"], evidence["requests:sim-1"]
    assert first is not None
    assert second is not None
    assert first / (first + second) == pytest.approx(0.8, abs=0.05)
    assert advice.reason_code == "uneven_routing"
    assert "fewest requests" in advice.summary
    hot, even = advice.alternatives
    assert (hot["setting"], even["setting"]) == ("sim-0 as it is", "an even share for each")
    assert float(str(even["itl_p99_seconds"])) < float(str(hot["itl_p99_seconds"]))
    assert was_applied(scene_of(fleet), advice) is False
    for replica in fleet.replicas_there:
        replica.weight = 0.5
    fleet.reads_every = 30.0
    fleet.go(900.0)
    (judged,) = said(fleet, "route")
    assert judged.verdict in ("kept", "missed"), "it was applied: the load is even, whatever the promise does"
    assert was_applied(scene_of(fleet), advice) is True


@pytest.mark.parametrize(
    ("row", "fleet"),
    [
        ("even", alike_fleet(2, 1.2)),
        ("even by load", alike_fleet(3, 1.5, LeastLoad)),
        ("a replica was not read for a minute", skewed(fails=lambda name, at: name == "sim-1" and 500 < at - T0 < 570)),
        (
            "pages no longer tell what waits",
            skewed(hides=lambda line, at: "num_requests_waiting" in line and at > T0 + 200),
        ),
    ],
)
def test_no_advice(row: str, fleet: WatchedFleet) -> None:
    fleet.go(600.0)
    assert list(routing(scene_of(fleet))) == [], row


def test_few_requests_say_nothing() -> None:
    """Four of five requests to one of two, but only some twenty in five minutes."""
    fleet = alike_fleet(2, 0.08, lambda: Skewed(stream(1, "router")), weights=(0.8, 0.2))
    fleet.go(600.0)
    assert list(routing(scene_of(fleet))) == []
