"""What users of other autoscalers complain of (facts/recommend.md, section 3), where no other file has it as a test.

Elsewhere: flapping (llm-d #1352, dynamo PR #9294), slow growth (#1248), bounds, an SLO no count meets (PR #11624), a
worker that loads (sie #293): test_replicas.py. Dead pods (#368), no traffic (dynamo #6985, aibrix #593), proposals with
reasons (#399): test_scale.py. Two autoscalers in one (aibrix #436): test_ledger.py. Last value (dynamo #14238), and
negative forecasts (#14493): test_forecast.py. A pod that stays pending (#14251), one unready pod (aibrix #617):
test_bad_data.py. Skew, pools and tiers have rules, and tests, of their own.
"""

from dataclasses import replace
from typing import get_args

import pytest
from test_replicas import LEAD, ask, carries, foreseen
from watched_fleet import T0, WatchedFleet

from agent.advice.advisor import Advisor
from agent.advice.forecast import Forecaster
from agent.advice.replicas import Group, Reason, Steadiness, wished
from agent.model import TargetStatus
from agent.plan import AdvicePlan, Plan
from agent.simulator.topology import Topology
from agent.sli.count import TargetFacts

LOADING_SECONDS = 95.0


def test_llm_d_380_zero_load_never_scales_up() -> None:
    """Nothing was ever asked for: no model, no forecast but 0, and no replica more at any tick."""
    fleet = WatchedFleet(lambda _: 0.0, 2, ticks_every=10.0)
    fleet.go(400.0)
    assert max(wish.value for wish in fleet.wishes) <= 2
    assert not fleet.memory.ledger.entries


def test_llm_d_1211_prefill_and_decode_are_never_added_up() -> None:
    """KV, arrivals and models of the two parts are those of two groups."""
    fleet = WatchedFleet(lambda _: 2.0, 2, topology=Topology(prefill=1, decode=1), ticks_every=10.0)
    fleet.go(120.0)
    advisor = fleet.memory.advisor
    assert set(advisor.groups) == {("m", "prefill"), ("m", "decode")}
    assert {kind.role for kind in advisor.capacity.learned} == {"prefill", "decode"}


def test_llm_d_688_what_the_load_asks_for_is_told_apart_from_what_is_allowed() -> None:
    capped = ask(Group(4), foreseen(9.0), bounds=(1, 6), for_seconds=0.0)
    assert (capped.count, capped.reason, capped.needed) == (6, "grow", 9)
    at_the_bound = ask(Group(6), foreseen(9.0), bounds=(1, 6), for_seconds=0.0)
    assert (at_the_bound.count, at_the_bound.reason, at_the_bound.needed) == (6, "max_replicas", 9)
    in_steps = ask(Group(2), foreseen(9.0), for_seconds=0.0)
    assert (in_steps.count, in_steps.needed) == (6, 9)


def test_llm_d_688_advice_says_which_bound_holds_it_back() -> None:
    fleet = WatchedFleet(lambda _: 9.0, 2, ticks_every=10.0)
    fleet.plan = replace(fleet.plan, advice=AdvicePlan(cold_start_seconds=120.0, max_replicas=3))
    fleet.go(100.0)
    (advice,) = (entry for entry in fleet.memory.ledger.entries if entry.action == "scale")
    assert advice.proposed == 3
    assert "the load asks for 4, but advice.max_replicas is 3" in advice.summary
    assert [each.value for each in advice.evidence if each.signal == "replicas_needed"] == [4]


@pytest.mark.parametrize("group", [Group(3), Group(3, quality_ratio=0.0), Group(2, pending=1), Group(0, lost=3)])
@pytest.mark.parametrize("known", [True, False])
def test_llm_d_970_there_is_always_a_reason_in_a_closed_word(group: Group, known: bool) -> None:  # noqa: FBT001
    """All zero, and nobody could tell why."""
    wish = wished(group, foreseen(2.0) if known else None, carries(), 0.0, Steadiness(), (1, 64), LEAD, 0.0)
    assert wish.reason in get_args(Reason)


def test_llm_d_1433_the_cold_start_is_measured() -> None:
    """A third replica that answers after 95 s: that is the lead from then on, not what the config said."""
    fleet = WatchedFleet(lambda _: 2.0, 3, lambda name, at: name == "sim-2" and at < T0 + LOADING_SECONDS)
    fleet.go(60.0)
    assert fleet.memory.advisor.lead_seconds(fleet.plan, ("m", "aggregated")) == 120.0
    fleet.go(60.0)
    found = fleet.memory.advisor.lead_seconds(fleet.plan, ("m", "aggregated"))
    assert LOADING_SECONDS - 10 <= found <= LOADING_SECONDS + 10


def test_dynamo_13559_fewer_replicas_are_drained_before_they_go() -> None:
    """Scaling in aborted what was running."""
    fleet = WatchedFleet(lambda seconds: 2.4 if seconds < 200 else 1.2, 2, ticks_every=10.0)
    fleet.go(540.0)
    advice = next(entry for entry in fleet.memory.ledger.entries if entry.proposed < entry.current)
    assert "drain before they go" in advice.steps
    assert any("termination grace period" in effect for effect in advice.side_effects)


def test_dynamo_14513_a_predictor_that_says_nothing_never_speaks() -> None:
    """Its loss of 0 is that of one who was never asked."""
    forecaster = Forecaster()
    for _ in range(60):
        forecaster.take(5.0)
    forecaster.scores["a day ago"] = type(forecaster.scores["last value"])(loss=0.0)
    forecast = forecaster.forecast()
    assert forecast is not None
    assert forecast.predictor != "a day ago"


def test_dynamo_4420_a_count_changed_by_hand_is_the_count() -> None:
    """Somebody adds two replicas: the next tick goes on from five, and advice to add them is over."""
    fleet = WatchedFleet(lambda seconds: 3.0 if seconds < 180 else 9.0, 2, ticks_every=10.0)
    fleet.go(260.0)
    assert [entry.current for entry in fleet.memory.ledger.open if entry.action == "scale"] == [2]
    fleet.scale(5)
    wish = fleet.go(60.0)
    assert wish is not None
    assert wish.current == 5
    assert wish.value == 5


def test_aibrix_1014_load_is_never_answered_with_zero() -> None:
    """The optimizer said 0 at a concurrency of 500: here a load that was seen needs one at least, and a queue more."""
    assert ask(Group(1), foreseen(0.2), bounds=(0, 64)).count == 1
    assert ask(Group(1), foreseen(0.0), waiting=500.0, bounds=(0, 64), for_seconds=0.0).count > 1


def test_groups_of_targets_that_never_said_their_model_join_the_only_one() -> None:
    """dynamo #12591: what had no name was dropped, and with it everything. A replica that loads has no name yet."""
    facts = TargetFacts("", "aggregated", None)
    plan = Plan((), {"a": facts, "b": facts})
    statuses = [
        TargetStatus("a", "vllm", "up", 0.0, "ok", "", "m", "aggregated"),
        TargetStatus("b", "vllm", "unknown", None, "connect_refused", "", "", "aggregated"),
    ]
    advisor = Advisor()
    advisor.take(plan, statuses, [], 0.0)
    assert list(advisor.groups) == [("m", "aggregated")]
