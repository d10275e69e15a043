"""Hits that were lost when replicas were added, and what a router that looks at prefixes would find again."""

import pytest
from alike_fleet import alike_fleet, conversations, said
from split_fleet import scene_of

from agent.advice.applied import was_applied
from agent.advice.prefix_routing import Fall
from agent.advice.routing import routing
from agent.advice.shares import hit_ratio_of
from agent.model import Recommendation
from agent.signals.sums import add_up
from agent.simulator.faults import Fault
from agent.simulator.router import PrefixAware, RoundRobin, Router


def grown(router: type[Router]) -> tuple[list[Recommendation], float | None]:
    """Conversations on one replica for 22 minutes, on four for 16; the advice, and the hits of the last minutes."""
    fleet = alike_fleet(1, 0.0, router, workload=conversations(0.12), reads_every=60.0)
    fleet.go(1_320.0)
    assert said(fleet, "route") == []
    fleet.scale(4)
    fleet.go(540.0)
    assert said(fleet, "route") == [], "new caches are empty for another reason yet"
    fleet.go(420.0)
    scene = scene_of(fleet)
    (group,) = scene.groups().values()
    assert list(routing(scene)) == []
    ratio = hit_ratio_of(add_up(scene.increments(group, 300.0)))
    for advice in said(fleet, "route"):
        assert was_applied(scene, advice) is False
    return said(fleet, "route"), ratio


def test_a_working_set_spread_by_turns_is_to_be_routed_by_prefix_and_the_prediction_holds() -> None:
    """88 % of the prompt tokens were found on one replica, 62 % on four in turn; with a router that looks, four find
    what was predicted: the simulator says so, too.
    """
    (advice,), now = grown(RoundRobin)
    none, by_prefix = grown(PrefixAware)
    assert advice.reason_code == "working_set_spread"
    assert none == []
    assert now is not None
    assert by_prefix is not None
    assert advice.current == pytest.approx(now)
    assert advice.low > now + 0.1
    assert advice.low - 0.03 <= by_prefix <= advice.proposed + 0.03


def test_a_replica_whose_cache_finds_less_than_the_others_is_told_at_low_confidence() -> None:
    """One of two loses its cache every half minute (evictions, a small cache): the same traffic hits less there."""
    losing = tuple(Fault("forget_prefixes", 300.0 + 30.0 * n, 1) for n in range(30))
    fleet = alike_fleet(2, 0.0, RoundRobin, workload=conversations(0.12), faults=losing, reads_every=30.0)
    fleet.go(1_200.0)
    (advice,) = said(fleet, "route")
    evidence = {e.signal: e.value for e in advice.evidence}
    best, worst = evidence["prefix_hit_ratio:sim-0"], evidence["prefix_hit_ratio:sim-1"]
    assert best is not None
    assert worst is not None
    assert best - worst > 0.15
    assert (advice.reason_code, advice.proposed, advice.confidence) == ("uneven_hits", best, 0.4)
    assert worst < advice.low < best
    assert was_applied(scene_of(fleet), advice) is False


@pytest.mark.parametrize(
    ("row", "fall", "clear"),
    [
        ("from 88 to 62", Fall(1, 0.88, 0.84, 0.62, 0.71), True),
        ("a twentieth", Fall(1, 0.88, 0.86, 0.83, 0.85), False),
        ("some minutes of now are as good as some of before", Fall(1, 0.80, 0.62, 0.62, 0.71), False),
    ],
)
def test_a_fall_is_one_beyond_noise(row: str, fall: Fall, clear: bool) -> None:  # noqa: FBT001 - a column
    assert fall.is_clear == clear, row
