"""The KV tier rule on pages of a simulated replica: conversations that its own cache is too small for."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

from agent.advice.kv_tier import kv_tier
from agent.advice.scene import Scene
from agent.model import Budget, Counts, Recommendation, Slo, SloStatus, TargetStatus
from agent.plan import AdvicePlan, KvTier, Plan
from agent.simulator.arrivals import Arrivals, Steps
from agent.simulator.conversations import Conversations, Habits
from agent.simulator.engine import EngineConfig
from agent.simulator.lengths import LogNormal
from agent.simulator.lmcache_page import lmcache_page
from agent.simulator.plant import KV_BYTES_PER_TOKEN, Plant
from agent.simulator.seeds import stream
from agent.simulator.tier import CacheTier, TierConnector
from agent.simulator.topology import Topology
from agent.sli.count import TargetFacts
from agent.windows import Windows
from probes.page import SystemPage

START, WARM_UP, LENGTH, BLOCK = 1_700_000_000.0, 100.0, 400.0, 64
PLANT = Plant(EngineConfig(block_tokens=BLOCK, num_gpu_blocks=1_000))
TALK = Habits(256, LogNormal(700, 0.5, 3000, 16), LogNormal(250, 0.4, 600, 16), 5.0, 20.0)
CPU = KvTier("cpu", 20e9, 0.02, (8.0, 64.0, 400.0), None, 0.004)
SLO = Slo("ttft", "chat", "ttft", "engine", 0.95, 86_400.0, (), 2.5)


@cache
def watched(gigabytes: float) -> Windows:
    """Five minutes of pages of one replica, with a tier of that size or without one."""
    tier = CacheTier(gigabytes * 1e9, 20e9, block_tokens=BLOCK) if gigabytes else None
    connector = None if tier is None else (lambda _, telemetry: TierConnector(tier, telemetry))
    work = Conversations(
        Arrivals(Steps(((0.0, 0.9),)), stream(1, "arrivals"), START), TALK, stream(1, "prompts"), block_tokens=BLOCK
    )
    fleet = Topology(connector=connector, page_groups=("kv_residency",)).fleet(PLANT, work, START)
    windows, pages, at = Windows(), {"e": SystemPage("vllm"), "c": SystemPage("lmcache")}, START + WARM_UP
    while at <= START + LENGTH:
        fleet.settle(at)
        windows.take(pages["e"].read(fleet.replicas[0].page.text(), "e", at))
        if tier is not None:
            windows.take(pages["c"].read(lmcache_page(tier, "llama8b"), "c", at))
        at += 5.0
    return windows


def advised(tiers: tuple[KvTier, ...], *, kv_bytes: bool = True) -> list[Recommendation]:
    """What the rule says where these tiers could be had, or are in use."""
    in_use = next((tier.in_use_gigabytes for tier in tiers if tier.in_use_gigabytes), 0.0)
    windows = watched(in_use)
    known = {"llama8b": KV_BYTES_PER_TOKEN} if kv_bytes else {}
    targets = {
        "e": TargetFacts("llama8b", "aggregated", "chat", 5.75 / 3600),
        "c": TargetFacts("", "aggregated", "chat"),
    }
    plan = Plan((SLO,), targets, advice=AdvicePlan(kv_tiers=tiers, kv_bytes_per_token=known))
    now = START + LENGTH
    statuses = [TargetStatus("e", "vllm", "up", now, "ok", "", "llama8b", "aggregated")]
    statuses.append(TargetStatus("c", "lmcache", "up", now, "ok", "", "", "aggregated"))
    slos = [SloStatus(SLO, "ok", (), Budget(1.0, Counts(), 1.0), now)]
    scene = Scene(plan, statuses, slos, windows, now)
    return list(kv_tier(scene))


def test_a_tier_that_pays_is_advised_with_all_that_there_could_be() -> None:
    """Its own cache of 64,000 tokens forgets what people come back to."""
    (advice,) = advised((CPU,))
    assert (advice.action, advice.reason_code, advice.current) == ("kv_tier", "tier_pays", 0.0)
    assert advice.proposed == 64.0
    assert advice.low <= 64.0 <= advice.high < 400.0, "400 GB find little more, and cost $1.34 an hour more"
    assert [one["setting"] for one in advice.alternatives] == [
        "no tier",
        *(f"cpu tier of {size} GB a replica" for size in (8, 64, 400)),
    ]
    dollars = {one["setting"]: one["dollars_per_hour"] for one in advice.alternatives}
    assert dollars["no tier"] == pytest.approx(5.75)
    best = dollars[f"cpu tier of {advice.proposed:g} GB a replica"]
    assert isinstance(best, float)
    assert best < 5.75
    assert all(one["meets_slo"] is True for one in advice.alternatives)
    evidence = {one.signal: one.value for one in advice.evidence}
    assert evidence["break_even_bytes_per_second"] == pytest.approx(5.2e9, rel=0.2)
    assert (evidence["working_set_bytes"] or 0.0) > 64_000 * KV_BYTES_PER_TOKEN
    assert advice.steps
    assert advice.side_effects
    assert "no tier" in advice.rollback
    assert advice.verify_at_seconds > advice.at_seconds


def test_a_tier_that_is_far_larger_than_what_comes_again_is_made_smaller() -> None:
    (advice,) = advised((replace(CPU, in_use_gigabytes=400.0),))
    assert (advice.reason_code, advice.current, advice.proposed) == ("tier_too_large", 400.0, 64.0)


def test_a_tier_that_is_too_small_is_made_bigger() -> None:
    (advice,) = advised((replace(CPU, in_use_gigabytes=8.0),))
    assert (advice.reason_code, advice.current, advice.proposed) == ("tier_too_small", 8.0, 64.0)


def test_a_tier_that_costs_more_than_it_saves_is_turned_off() -> None:
    (advice,) = advised((replace(CPU, gigabytes=(400.0,), in_use_gigabytes=400.0, gigabyte_hour_dollars=0.02),))
    assert (advice.reason_code, advice.proposed) == ("tier_does_not_pay", 0.0)
    assert "off" in advice.summary


def test_a_cheaper_place_for_the_same_is_moved_to() -> None:
    remote = KvTier("remote", 15e9, 0.03, (64.0,), None, 0.0005)
    (advice,) = advised((replace(CPU, in_use_gigabytes=400.0), remote))
    assert (advice.reason_code, advice.proposed) == ("another_tier_pays", 64.0)
    assert "remote" in advice.summary


def test_what_is_best_already_is_left_alone() -> None:
    assert advised((replace(CPU, gigabytes=(64.0,), in_use_gigabytes=64.0),)) == []


def silent() -> Iterator[tuple[KvTier, ...]]:
    yield ()
    yield (replace(CPU, gigabyte_hour_dollars=1.0),)


@pytest.mark.parametrize("tiers", list(silent()))
def test_without_a_tier_that_could_pay_nothing_is_said(tiers: tuple[KvTier, ...]) -> None:
    assert advised(tiers) == []


def test_without_the_size_of_a_tokens_kv_nothing_is_said() -> None:
    assert advised((CPU,), kv_bytes=False) == []
