"""Among KV tiers: the cheapest that keeps the promise, clearly better than now, and sure at the pessimistic end."""

import pytest

from agent.advice.reuse import ReuseCurve
from agent.advice.reuse_counts import Found
from agent.advice.tier_choice import choose
from agent.advice.tier_facts import TierFacts
from agent.advice.tier_options import NO_TIER, Outlook, Reuse, Setting
from agent.plan import KvTier

CPU = KvTier("cpu", 20e9, 0.0, (64.0, 128.0), None, 0.004)
SMALL, LARGE = Setting(CPU, 64.0), Setting(CPU, 128.0)
REUSE = Reuse(ReuseCurve(10.0, ((10.0, 0.3),), 0.0, 1.0, ""), 0.3, 10.0, 1e9, 131_072.0)


def outlook(setting: Setting, busy: float, strain: float = 0.5, ttft: float = 0.2, low: float | None = None) -> Outlook:
    """`busy` is the part of an engine that computes prompts, `low` that at the pessimistic end."""
    price = 0.0 if setting.tier is None else (setting.tier.gigabyte_hour_dollars or 0.0) * setting.gigabytes
    worst = busy if low is None else low
    return Outlook(setting, 0.5, 0.2, ttft, 2 * ttft, 0.02, strain, strain, busy, worst, price)


def chosen(now: Setting, *outlooks: Outlook, dollars: float | None = 6.0, promised: bool = True) -> Setting | None:
    found = Found(1e6, 0.3, 0.0, 600.0)
    facts = TierFacts(now, REUSE, found, outlooks, promised, dollars, 0.2, 2_000.0, 25e-6, None)
    best = choose(facts)
    return None if best is None else best.setting


@pytest.mark.parametrize("promised", [True, False])
def test_a_tier_that_saves_more_gpu_time_than_it_costs_is_worth_having(promised: bool) -> None:  # noqa: FBT001
    """A fifth of an engine at $6 is $1.60 at 75 % busy; 64 GB are $0.26, 128 GB $0.51 and save no more."""
    found = chosen(NO_TIER, outlook(NO_TIER, 0.4), outlook(SMALL, 0.2), outlook(LARGE, 0.2), promised=promised)
    assert found == SMALL


def test_the_bigger_one_where_it_saves_more_and_the_smaller_where_it_does_not() -> None:
    assert chosen(SMALL, outlook(NO_TIER, 0.6), outlook(SMALL, 0.4), outlook(LARGE, 0.1)) == LARGE
    assert chosen(LARGE, outlook(NO_TIER, 0.6), outlook(SMALL, 0.1), outlook(LARGE, 0.1)) == SMALL


def test_a_tier_that_finds_too_little_for_its_price_is_turned_off() -> None:
    assert chosen(LARGE, outlook(NO_TIER, 0.2), outlook(SMALL, 0.2), outlook(LARGE, 0.19)) == NO_TIER


def test_what_breaks_the_promise_is_not_chosen_however_cheap() -> None:
    assert chosen(NO_TIER, outlook(NO_TIER, 0.4), outlook(SMALL, 0.1, strain=3.0), outlook(LARGE, 0.1)) == LARGE


def test_a_broken_promise_is_mended_at_whatever_price_or_else_eased() -> None:
    none = outlook(NO_TIER, 0.2, strain=2.0)
    assert chosen(NO_TIER, none, outlook(SMALL, 0.2, strain=1.5), outlook(LARGE, 0.2, strain=0.9)) == LARGE
    assert chosen(NO_TIER, none, outlook(SMALL, 0.2, strain=1.5), outlook(LARGE, 0.2, strain=1.8)) == SMALL
    assert chosen(NO_TIER, none, outlook(SMALL, 0.2, strain=1.99)) is None, "that is no gain"


def test_nothing_is_changed_for_two_per_cent() -> None:
    assert chosen(NO_TIER, outlook(NO_TIER, 0.40), outlook(SMALL, 0.36)) is None


def test_what_is_only_estimated_has_to_save_at_its_pessimistic_end_too() -> None:
    assert chosen(NO_TIER, outlook(NO_TIER, 0.4), outlook(SMALL, 0.2, low=0.3)) == SMALL
    assert chosen(NO_TIER, outlook(NO_TIER, 0.4), outlook(SMALL, 0.2, low=0.38)) is None


def test_without_prices_the_smallest_of_those_that_bring_first_tokens_soonest() -> None:
    none, small, large = outlook(NO_TIER, 0.4), outlook(SMALL, 0.2, ttft=0.1), outlook(LARGE, 0.2, ttft=0.1)
    assert chosen(NO_TIER, none, small, large, dollars=None) == SMALL
    assert chosen(SMALL, none, small, large, dollars=None) is None


def test_without_a_promise_a_tier_that_delays_first_tokens_is_none() -> None:
    slow = outlook(SMALL, 0.1, ttft=0.5)
    assert chosen(NO_TIER, outlook(NO_TIER, 0.4), slow, promised=False) is None


def test_what_is_in_use_and_cannot_be_told_is_left_alone() -> None:
    assert chosen(LARGE, outlook(NO_TIER, 0.2), outlook(SMALL, 0.2)) is None
