"""Moving an engine between the pools: at equal GPUs, by the pessimistic end of both pools, and judged afterwards."""

from collections import deque
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace

import pytest
from split_fleet import empty_scene, pools, promise, scene_of, split_fleet, standing
from watched_fleet import T0

from agent.advice.applied import was_applied
from agent.advice.pd_back import pd_back
from agent.advice.pd_pools import pools_of
from agent.advice.pd_rebalance import pd_rebalance, rebalanced
from agent.advice.scene import Scene
from agent.model import Recommendation, Slo
from agent.windows import Increment

TTFT, ITL = promise("ttft", 10.0), promise("itl", 0.2)


def asked(prefill: int, decode: int, rate: float, missed: str, ttft: Slo = TTFT) -> Recommendation | None:
    """What the rule says of such pools where this promise is missed."""
    late = [standing(slo) for slo in (ttft, ITL) if slo.name == missed]
    return rebalanced(empty_scene(ttft, ITL), pools(prefill, decode, rate), late, [standing(ttft), standing(ITL)])


@pytest.mark.parametrize(
    ("row", "prefill", "decode", "rate", "missed", "code", "proposed"),
    [
        ("decode binds: one sequence in four slots", 3, 1, 1.9, "itl", "rebalance_pools", 2),
        ("prefill binds: 1.7 prompts/s of 0.63 s each", 1, 3, 1.7, "ttft", "rebalance_pools", 2),
        ("both bind, and one engine more does not help", 2, 2, 4.0, "itl", "no_split_keeps", 2),
        ("the model does not show what is seen", 2, 2, 1.0, "itl", None, 0),
    ],
)
def test_an_engine_moves_to_the_pool_that_binds(
    row: str, prefill: int, decode: int, rate: float, missed: str, code: str | None, proposed: int
) -> None:
    said = asked(prefill, decode, rate, missed)
    assert (said.reason_code if said else None) == code, row
    if said is not None:
        assert (said.current, said.proposed, said.meets_slo) == (prefill, proposed, proposed != prefill), row
        assert said.action == ("rebalance" if proposed != prefill else "none"), row


def test_every_choice_tells_both_tails_and_only_the_pessimistic_end_counts() -> None:
    """Three prefill engines for one that decodes: all splits of four are told, at one price of four engines."""
    said = asked(3, 1, 1.9, "itl")
    assert said is not None
    assert [choice["setting"] for choice in said.alternatives] == [
        "1 prefill and 3 decode", "2 prefill and 2 decode", "3 prefill and 1 decode",
    ]  # fmt: skip
    assert all(choice["ttft_p95_seconds"] and choice["itl_p99_seconds"] for choice in said.alternatives)
    assert "TTFT p95 goes from" in said.summary
    assert "ITL p99 from" in said.summary
    assert said.do_nothing["meets_slo"] is False


def test_where_none_keeps_them_the_nearest_is_named() -> None:
    """3.4 requests/s are more than two engines can prefill, and more than one can decode: two and two come nearest."""
    said = asked(3, 1, 3.4, "itl")
    assert said is not None
    assert (said.proposed, said.meets_slo) == (2, False)
    assert "nothing tried keeps every promise; this is nearest" in said.summary


def test_where_the_present_split_is_nearest_it_says_what_one_more_engine_does() -> None:
    """2.6 requests/s and 3.5 seconds: two that prefill are too few, and one that decodes is, too."""
    said = asked(2, 2, 2.6, "ttft", promise("ttft", 3.5))
    assert said is not None
    assert (said.action, said.reason_code, said.proposed) == ("none", "no_split_keeps", 2)
    assert "nearest is the present one, 2 prefill and 2 decode; one engine more does: 3 prefill and 2" in said.summary


def test_two_engines_have_nothing_to_move() -> None:
    assert asked(1, 1, 1.5, "ttft") is None


@dataclass(frozen=True)
class Story:
    """Three prefill engines, one that decodes; after five quiet minutes more comes than that one can decode in time.
    The advised move is made at once, and all goes on until it is judged.
    """

    starved: Scene
    advised: Recommendation
    judged: Recommendation


@pytest.fixture(scope="module")
def story() -> Story:
    fleet = split_fleet(3, 1, lambda seconds: 0.8 if seconds < 300 else 1.9, (TTFT, ITL))
    fleet.go(705.0)
    starved = deepcopy(scene_of(fleet))
    (advised,) = [entry for entry in fleet.memory.ledger.entries if entry.action == "rebalance"]
    fleet.scale(2, "prefill")
    fleet.scale(2, "decode")
    fleet.reads_every = 30.0
    fleet.go(1_020.0)
    (judged,) = [entry for entry in fleet.memory.ledger.entries if entry.action == "rebalance"]
    return Story(starved, advised, judged)


def test_from_pages_to_advice_and_to_its_verdict(story: Story) -> None:
    """The whole way in virtual time: decode is starved, the advised move is made, and 17 minutes later it was right."""
    (seen,) = pools_of(story.starved)
    assert seen.engine.steps.prefill_seconds_per_token == pytest.approx(360e-6, rel=0.05)
    assert seen.load.rate == pytest.approx(1.9, rel=0.1)
    said = story.advised
    assert (said.current, said.proposed, said.meets_slo, said.verdict) == (3, 2, True, None)
    assert said.verify_at_seconds == T0 + 705 + 120 + 900
    assert story.judged.verdict == "kept"


def test_a_move_that_was_not_made_is_not_applied(story: Story) -> None:
    """Still three that prefill: what happened says nothing about the advice."""
    assert was_applied(story.starved, story.advised) is False
    assert was_applied(story.starved, replace(story.advised, low=3.0, high=3.0)) is True
    assert was_applied(story.starved, replace(story.advised, reason_code="token_budget")) is None


def silent(scene: Scene) -> Scene:
    """One engine of the prefill pool does not answer now."""
    gone = [replace(s, health="stale") if s.name == "sim-0" else s for s in scene.statuses]
    return replace(scene, statuses=gone)


def with_increments(scene: Scene, change: Callable[[Increment], Increment | None]) -> Scene:
    windows = deepcopy(scene.windows)
    for key, kept in windows.increments.items():
        windows.increments[key] = deque(new for old in kept if (new := change(old)) is not None)
    return replace(scene, windows=windows)


def unread(scene: Scene) -> Scene:
    """The engine that decodes was not read for one of the last minutes."""
    return with_increments(
        scene, lambda i: None if i.key.target == "sim-3" and T0 + 600 < i.to_seconds <= T0 + 660 else i
    )


def without_transfers(scene: Scene) -> Scene:
    """Another connector: pages tell of no NIXL transfers, so what the link costs is not known."""
    return with_increments(
        scene, lambda i: replace(i, histograms={n: h for n, h in i.histograms.items() if not n.startswith("nixl")})
    )


def preempting(scene: Scene) -> Scene:
    """Prompts were computed again all the time, which nobody counts: no stretch tells what a step costs."""
    return with_increments(scene, lambda i: replace(i, counters={**i.counters, ("preemptions_total", ""): 1.0}))


@pytest.mark.parametrize("change", [silent, unread, without_transfers, preempting])
def test_bad_data_is_no_ground_for_advice(story: Story, change: Callable[[Scene], Scene]) -> None:
    assert len(list(pd_rebalance(replace(story.starved)))) == 1
    bad = change(story.starved)
    assert (list(pools_of(bad)), list(pd_rebalance(bad)), list(pd_back(bad))) == ([], [], [])
