"""A replica that is slow is told from one that gets more: by the law of its fellows."""

import pytest
from alike_fleet import alike_fleet, said
from split_fleet import LAW, scene_of

from agent.advice.applied import was_applied
from agent.advice.routing import routing
from agent.advice.shares import shares_of
from agent.advice.slow_replica import against, slow_replica, step_ratio
from agent.advice.step_samples import StepSample
from agent.simulator.faults import Fault
from agent.simulator.router import LeastLoad, RoundRobin, Router


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


def stretches(batches: tuple[int, ...], prompts: float, slowdown: float = 1.0) -> list[StepSample]:
    """Stretches of 2.5 s or so, with so many prompt tokens a step; the plant's own law, but for the slowdown."""
    found = []
    for at in range(30):
        batch = batches[at % len(batches)]
        step = slowdown * LAW.seconds(round(prompts * batch), 0.0, batch, 1650 * batch)
        found.append(
            StepSample(10.0 * at, 30 * step, 30, 30 * prompts * batch, 30 * batch, 30 * 1650 * batch, float(batch))
        )
    return found


@pytest.mark.parametrize(
    ("row", "batches", "does_no_more", "slow"),
    [
        ("as large a batch as its fellows have", (3, 4, 5), False, True),
        ("twenty times the batch, and more was sent to it: their law was never seen there", (80, 90, 100), False, None),
        ("twenty times the batch, though no more was sent to it: it holds them so long", (80, 90, 100), True, True),
    ],
)
def test_a_law_is_not_held_against_a_load_that_nobody_has_seen(
    row: str,
    batches: tuple[int, ...],
    does_no_more: bool,  # noqa: FBT001 - a column
    slow: bool | None,  # noqa: FBT001 - a column
) -> None:
    """A healthy replica with 85 % of the requests was once called slow, by the law of one that was nearly idle."""
    told = against(stretches((2, 3, 4), 5.0), stretches(batches, 5.0, 1.5), does_no_more=does_no_more)
    assert (None if told is None else told.is_slow) is slow, row


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
        shares = shares_of(scene, group) or ()
        told = [step_ratio(scene, group, shares, status.name) for status in group]
        assert [one.is_slow if one else None for one in told] == ([False, False] if replicas == 2 else [None])


def test_a_fellow_that_was_not_read_is_silence() -> None:
    fleet = alike_fleet(3, 1.5, faults=(Fault("slow", 200.0, 1, None, 1.5),))
    fleet.fails = lambda name, at: name == "sim-2" and 500 < at - 1_800_000_000 < 600
    fleet.go(700.0)
    assert said(fleet, "repair") == []
