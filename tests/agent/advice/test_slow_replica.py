"""A replica that is slow is told from one that gets more: by the law of its fellows."""

import pytest
from alike_fleet import alike_fleet, said
from split_fleet import scene_of

from agent.advice.applied import was_applied
from agent.advice.routing import routing
from agent.advice.shares import gets_more, hottest, shares_of
from agent.advice.slow_replica import slow_replica, step_ratio
from agent.simulator.faults import Fault
from agent.simulator.router import LeastLoad, RoundRobin, Router, Skewed
from agent.simulator.seeds import stream


@pytest.mark.parametrize("router", [RoundRobin, LeastLoad])
def test_a_slow_gpu_is_found_whatever_the_router_does(router: type[Router]) -> None:
    """One of three takes 1.5 times as long from the fourth minute on. In turn it gets as many requests and holds them
    longer; to the least loaded it gets fewer, and is as loaded as the others. Both look uneven; neither is the router.
    """
    fleet = alike_fleet(3, 1.5, router, faults=(Fault("slow", 200.0, 1, None, 1.5),))
    fleet.go(700.0)
    (advice,) = said(fleet, "repair")
    evidence = {e.signal: e.value for e in advice.evidence}
    assert evidence["step_time_ratio:sim-1"] == pytest.approx(1.5, rel=0.05)
    assert advice.reason_code == "slow_replica"
    assert "Drain sim-1" in advice.summary
    assert {f"requests:sim-{i}" for i in range(3)} <= set(evidence)
    settings = [choice["setting"] for choice in advice.alternatives]
    assert settings == ["sim-1 as it is", "without sim-1", "sim-1 repaired or replaced"]
    assert list(routing(scene_of(fleet))) == []


def test_a_slow_replica_that_gets_more_is_repaired_before_its_balance_is() -> None:
    """Two thirds of the requests to the one that is slow: how uneven it is when it is well, nobody knows yet."""
    fleet = alike_fleet(
        2, 1.0, lambda: Skewed(stream(1, "router")), weights=(0.67, 0.33), faults=(Fault("slow", 200.0, 0, None, 1.5),)
    )
    fleet.go(700.0)
    scene = scene_of(fleet)
    (group,) = scene.groups().values()
    shares = shares_of(scene, group)
    assert shares is not None
    top = hottest(shares)
    assert top is not None
    assert gets_more(top[0], shares)
    assert [e.reason_code for e in said(fleet, "repair")] == ["slow_replica"]
    assert list(routing(scene)) == []


def test_it_was_repaired_when_its_steps_are_as_long_as_the_others() -> None:
    """Slow until minute nine; seen at minute ten, and well at minute sixteen."""
    fleet = alike_fleet(2, 1.0, faults=(Fault("slow", 100.0, 0, 560.0, 2.0),))
    fleet.go(555.0)
    (advice,) = said(fleet, "repair")
    assert was_applied(scene_of(fleet), advice) is False
    fleet.go(405.0)
    assert was_applied(scene_of(fleet), advice) is True


def test_replicas_that_are_alike_get_no_advice_and_one_alone_has_no_fellows() -> None:
    for replicas, rate in ((2, 1.2), (1, 0.6)):
        fleet = alike_fleet(replicas, rate)
        fleet.go(600.0)
        scene = scene_of(fleet)
        assert list(slow_replica(scene)) == []
        assert list(routing(scene)) == []
        (group,) = scene.groups().values()
        told = [step_ratio(scene, group, status.name) for status in group]
        assert [one.is_slow if one else None for one in told] == ([False, False] if replicas == 2 else [None])


def test_a_fellow_that_was_not_read_is_silence() -> None:
    fleet = alike_fleet(3, 1.5, faults=(Fault("slow", 200.0, 1, None, 1.5),))
    fleet.fails = lambda name, at: name == "sim-2" and 500 < at - 1_800_000_000 < 600
    fleet.go(700.0)
    assert said(fleet, "repair") == []
