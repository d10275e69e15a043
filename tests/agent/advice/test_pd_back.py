"""The way back from split pools: only where engines that do both halves surely keep every promise, and cost no more."""

from dataclasses import replace

import pytest
from split_fleet import QUICK, SHORT_ANSWERS, empty_scene, pools, promise, split_fleet, standing

from agent.advice.applied import was_applied
from agent.advice.pd_back import aggregated_again
from agent.advice.pd_pools import Pools
from agent.advice.topologies import Transfer
from agent.model import Recommendation, TargetStatus
from agent.plan import AdvicePlan

TTFT, LOOSE_ITL = promise("ttft", 5.0), promise("itl", 1.0)
SHORT = 150.0  # tokens of an answer


def asked(the_pools: Pools, *, missed: str = "", itl: float = 1.0) -> Recommendation | None:
    slos = (TTFT, promise("itl", itl))
    late = [standing(slo) for slo in slos if slo.name == missed]
    return aggregated_again(empty_scene(*slos), the_pools, late, [standing(slo) for slo in slos])


@pytest.mark.parametrize(
    ("row", "the_pools", "itl", "proposed"),
    [
        ("one engine does what one and one do", pools(1, 1, 0.3, output_tokens=SHORT, peak=0.45), 1.0, 1),
        ("a gap with a prompt in it is 0.8 s: the promise was why they were split",
         pools(1, 1, 0.3, output_tokens=SHORT, peak=0.45), 0.2, None),
        ("the busiest minutes of the hour need both", pools(1, 1, 0.3, output_tokens=SHORT, peak=1.4), 1.0, None),
        ("not the whole hour was seen", pools(1, 1, 0.3, output_tokens=SHORT), 1.0, None),
        ("two are needed, and one and one do as well: fewer in a pool is the cheaper change",
         pools(2, 1, 1.1, peak=1.1), 1.0, None),
    ],
)  # fmt: skip
def test_fewer_engines_are_advised_where_no_split_of_as_few_would_do(
    row: str, the_pools: Pools, itl: float, proposed: int | None
) -> None:
    said = asked(the_pools, itl=itl)
    assert (None if said is None else said.proposed) == proposed, row


@pytest.mark.parametrize(
    ("row", "transfer", "missed", "advised"),
    [
        ("six seconds on the wire are more than a first token may take", Transfer(0.0, 6.0), "ttft", True),
        ("posts of ten seconds: an eighth of them still breaks a gap", Transfer(10.0, 0.1), "itl", True),
        ("posts of 1.6 s: larger KV blocks cure them, and cost less", Transfer(1.6, 0.1), "itl", False),
        ("nothing in the model shows why it is missed", QUICK, "ttft", False),
    ],
)
def test_a_link_that_breaks_a_promise_sends_the_engines_back(
    row: str,
    transfer: Transfer,
    missed: str,
    advised: bool,  # noqa: FBT001 - a column
) -> None:
    said = asked(pools(2, 1, 0.8, output_tokens=SHORT, transfer=transfer), missed=missed)
    assert (said is not None) == advised, row
    if said is not None:
        assert said.proposed <= 3
        assert said.meets_slo is True


def test_it_says_what_happens_to_both_tails_and_to_the_price() -> None:
    said = asked(pools(1, 1, 0.3, output_tokens=SHORT, peak=0.45))
    assert said is not None
    assert (said.action, said.reason_code, said.current) == ("topology", "aggregate_again", 2)
    assert "The TTFT tail gets rid of the transfer and a queue: p95 goes from" in said.summary
    assert "The ITL tail holds others' prefill again: p99 goes from" in said.summary
    now, then = said.alternatives
    assert (now["setting"], then["setting"]) == ("1 prefill and 1 decode", "1 aggregated")
    assert said.do_nothing["summary"] == "2 engines where one would do go on costing"


def test_a_cache_for_each_engine_finds_less_than_one_for_all() -> None:
    """One prefill engine has 90 % of its prompts cached; spread over three engines a third of that is sure, and 8
    requests/s are too many to compute 70 % of. Two prefill engines show that 60 % are found by three.
    """
    slow = Transfer(0.0, 6.0)
    one, two = (
        asked(pools(p, 3 - p, 8.0, output_tokens=20.0, transfer=slow, hit_ratio=0.9), missed="ttft") for p in (1, 2)
    )
    assert one is None
    assert two is not None


def test_no_advice_goes_below_the_fewest_replicas_that_the_plan_allows() -> None:
    slos = (TTFT, LOOSE_ITL)
    scene = empty_scene(*slos)
    scene = replace(scene, plan=replace(scene.plan, advice=AdvicePlan(min_replicas=2)))
    the_pools = pools(1, 1, 0.3, output_tokens=SHORT, peak=0.45)
    assert aggregated_again(scene, the_pools, [], [standing(slo) for slo in slos]) is None


@pytest.mark.parametrize(
    ("row", "roles", "applied"),
    [
        ("one that does both, and the pools are gone", ["aggregated"], True),
        ("still apart", ["prefill", "decode"], False),
        ("half done", ["aggregated", "decode"], False),
        ("nobody answers", [], False),
    ],
)
def test_it_was_followed_when_nobody_does_a_half_any_more(row: str, roles: list[str], applied: bool) -> None:  # noqa: FBT001 - a column
    said = asked(pools(1, 1, 0.3, output_tokens=SHORT, peak=0.45))
    assert said is not None
    there = [TargetStatus(role, "vllm", "up", 0.0, "ok", "", "m", role) for role in roles]
    assert was_applied(replace(empty_scene(), statuses=there), said) is applied, row


def test_from_pages_of_an_hour_to_advice() -> None:
    """One and one serve 0.4 requests/s all hour long; one that does both would, at half the price."""
    fleet = split_fleet(1, 1, lambda _: 0.4, (TTFT, LOOSE_ITL), prompts=SHORT_ANSWERS, reads_every=30.0)
    fleet.go(3_600.0)
    (said,) = [entry for entry in fleet.memory.ledger.entries if entry.action == "topology"]
    assert (said.proposed, said.reason_code) == (1, "aggregate_again")
    now, then = said.alternatives
    assert then["dollars_per_hour"] == pytest.approx(0.5 * float(str(now["dollars_per_hour"])))
