"""More than one engine: routing, prefill and decode apart, cache tiers, faults."""

import pytest

from agent.simulator.arrivals import Arrivals, Steps
from agent.simulator.ask import Ask, Sequence
from agent.simulator.conversations import Conversations, Habits
from agent.simulator.engine import EngineConfig
from agent.simulator.faults import Fault
from agent.simulator.fleet import Fleet
from agent.simulator.pd import Link
from agent.simulator.plant import Plant
from agent.simulator.plants import PLANTS
from agent.simulator.router import PrefixAware, RoundRobin, Skewed
from agent.simulator.seeds import stream
from agent.simulator.step_time import LinearStepTime
from agent.simulator.tier import CacheTier, TierConnector
from agent.simulator.topology import Topology, parse_topology
from agent.simulator.workload import ClosedLoop

PLANT = Plant(EngineConfig(front_end_seconds=0.0))
LAW = LinearStepTime()


def fleet_of(topology: Topology, ended: list[Sequence], plant: Plant = PLANT) -> Fleet:
    return topology.fleet(plant, None, 0.0, on_end=ended.append, cold_start_seconds=60.0)


def test_pd_first_token_waits_for_prefill_post_and_wire() -> None:
    """8192 tokens: T0 + c_p·8192 + c_k·8192 on one side, post and wire of 32,768 descriptors, one step on the other."""
    ended: list[Sequence] = []
    link = Link(first_post_seconds=0.0)
    fleet = fleet_of(Topology(aggregated=0, prefill=1, decode=1, link=link), ended)
    fleet.submit(Ask("a", 8192, 10), 0.0)
    fleet.settle(10.0)
    prefill = LAW.seconds(8192, 0, 0, 8192)
    transfer = link.post_seconds(32_768) + link.wire_seconds(8192, 32_768)
    first_step = LAW.seconds(1, 0, 0, 8192)
    assert ended[0].client_ttft_seconds == pytest.approx(prefill + transfer + first_step, rel=1e-3)
    assert ended[0].generated_tokens == 10
    assert ended[0].external_tokens == 8192


def test_pd_post_stands_in_the_way_of_those_who_decode() -> None:
    """While one request decodes, another one's KV is posted: one gap of that request is longer by the post time."""
    ended: list[Sequence] = []
    link = Link(first_post_seconds=0.0)
    fleet = fleet_of(Topology(aggregated=0, prefill=1, decode=1, link=link), ended)
    fleet.submit(Ask("a", 100, 400), 0.0)
    fleet.submit(Ask("b", 8192, 1), 0.5)
    fleet.settle(20.0)
    decode = next(replica for replica in fleet.replicas if replica.role == "decode")
    slow = decode.engine.telemetry.histograms["inter_token_latency_seconds"]
    over_100ms = slow.count - slow.cumulative()[slow.edges.index(0.1)]
    assert over_100ms == 1
    assert decode.engine.telemetry.histograms["nixl_post_time_seconds"].count == 2


def test_pd_prefill_keeps_its_blocks_until_they_are_pulled() -> None:
    ended: list[Sequence] = []
    fleet = fleet_of(Topology(aggregated=0, prefill=1, decode=1, link=Link(first_post_seconds=2.0)), ended)
    fleet.submit(Ask("a", 8192, 10), 0.0)
    prefill = fleet.replicas[0].engine
    fleet.settle(1.0)
    assert prefill.requests_running == 0
    assert prefill.pool.usage_ratio > 0
    fleet.settle(10.0)
    assert prefill.pool.usage_ratio == 0
    assert ended[0].state == "finished"


def test_closed_loop_keeps_its_concurrency() -> None:
    """Four clients, twenty requests: never more than four under way, all twenty end."""
    ended: list[Sequence] = []
    workload = ClosedLoop(4, 20, lambda index: Ask(f"r{index}", 500, 50), 0.0)
    fleet = Topology(aggregated=2).fleet(PLANT, workload, 0.0, on_end=ended.append)
    for tick in range(200):
        fleet.settle(tick * 0.05)
        assert sum(replica.load for replica in fleet.replicas) <= 4
    assert len(ended) == 20


def test_round_robin_and_skew_split_as_they_say() -> None:
    ended: list[Sequence] = []
    even = fleet_of(Topology(aggregated=2, router=RoundRobin), ended)
    skewed = fleet_of(Topology(aggregated=2, router=lambda: Skewed(stream(1, "router"))), ended)
    skewed.replicas[0].weight, skewed.replicas[1].weight = 0.85, 0.15
    for index in range(1000):
        even.submit(Ask(f"e{index}", 16, 1), index * 0.1)
        skewed.submit(Ask(f"s{index}", 16, 1), index * 0.1)
    even.settle(1000.0)
    skewed.settle(1000.0)
    share = {}
    for kind in "es":
        mine = [sequence for sequence in ended if sequence.ask.id.startswith(kind)]
        share[kind] = sum(sequence.replica == "sim-0" for sequence in mine) / len(mine)
    assert share["e"] == 0.5
    assert share["s"] == pytest.approx(0.85, abs=0.04)


def test_prefix_aware_routing_finds_the_warm_replica() -> None:
    """Of four replicas, one has seen the prefix; all that share it go there while it is not busier than the slack."""
    ended: list[Sequence] = []
    fleet = fleet_of(Topology(aggregated=4, router=PrefixAware), ended)
    for index in range(8):
        fleet.submit(Ask(f"r{index}", 700, 1, tuple(range(40))), index * 1.0)
    fleet.settle(100.0)
    assert len({sequence.replica for sequence in ended}) == 1
    assert all(sequence.cached_tokens == 640 for sequence in ended[1:])


def test_tier_gives_back_what_the_engine_has_forgotten() -> None:
    """An engine too small to keep two prompts, and a tier that keeps both: the third prompt's KV is loaded."""
    tier = CacheTier(1e12, 10e9)
    ended: list[Sequence] = []
    topology = Topology(connector=lambda _, telemetry: TierConnector(tier, telemetry))
    fleet = fleet_of(topology, ended, Plant(EngineConfig(num_gpu_blocks=260, front_end_seconds=0.0)))
    for index, family in enumerate((0, 1000, 0)):
        fleet.submit(Ask(f"r{index}", 4090, 1, tuple(range(family, family + 255))), index * 5.0)
    fleet.settle(60.0)
    assert [sequence.external_tokens for sequence in ended[:2]] == [0, 0]
    assert ended[2].cached_tokens + ended[2].external_tokens == 3840
    assert tier.hit_tokens == ended[2].external_tokens > 3000
    # 3840 tokens of 128 KiB at 10 GB/s are 50 ms; computing them would have been 96 ms
    assert ended[2].client_ttft_seconds is not None
    assert ended[2].client_ttft_seconds < (ended[0].client_ttft_seconds or 0.0)


def test_tier_that_is_down_costs_its_timeout_and_gives_nothing() -> None:
    tier = CacheTier(1e12, is_down=True)
    ended: list[Sequence] = []
    fleet = fleet_of(Topology(connector=lambda _, telemetry: TierConnector(tier, telemetry)), ended)
    fleet.submit(Ask("a", 4090, 1, tuple(range(255))), 0.0)
    fleet.settle(60.0)
    assert ended[0].external_tokens == 0
    assert ended[0].client_ttft_seconds == pytest.approx(4.7 + LAW.seconds(4090, 0, 0, 4090), rel=1e-3)


def test_tier_forgets_the_least_recently_used() -> None:
    """Room for 16 blocks of 2 MiB: a second prompt of 16 blocks pushes the first one out."""
    tier = CacheTier(16 * 16 * 131_072, chunk_tokens=16)
    first, second = (Sequence(Ask(str(n), 256, 1, tuple(range(n, n + 16))), 0.0) for n in (0, 100))
    tier.keep(first)
    assert tier.find(first, 0) == 256
    tier.keep(second)
    assert (tier.find(first, 0), tier.find(second, 0)) == (0, 256)
    assert tier.evicted_blocks == 16


def test_conversations_hit_what_was_said_before_unless_the_prefix_is_spoilt() -> None:
    """Turn by turn the history is in the cache; an agent that puts the time first never hits."""
    hits = {}
    for spoils in (False, True):
        ended: list[Sequence] = []
        habits = Habits(mean_turns=6.0, mean_pause_seconds=2.0, spoils_prefix=spoils)
        arrivals = Arrivals(Steps(((0.0, 0.5), (60.0, 0.0))), stream(1, "arrivals"), 0.0)
        workload = Conversations(arrivals, habits, stream(1, "prompts"))
        fleet = Topology().fleet(PLANT, workload, 0.0, on_end=ended.append)
        fleet.settle(600.0)
        prompt = sum(sequence.ask.prompt_tokens for sequence in ended)
        hits[spoils] = sum(sequence.cached_tokens for sequence in ended) / prompt
        assert len(ended) > 60
    assert hits[False] > 0.8
    assert hits[True] == 0.0


def test_clients_give_up_when_the_first_token_is_late() -> None:
    ended: list[Sequence] = []
    fleet = fleet_of(Topology(), ended, Plant(EngineConfig(front_end_seconds=0.0, max_num_seqs=1)))
    fleet.submit(Ask("long", 100, 2000), 0.0)
    fleet.submit(Ask("hasty", 100, 1, patience_seconds=3.0), 0.1)
    fleet.settle(60.0)
    states = {sequence.ask.id: (sequence.state, sequence.ended_at_seconds) for sequence in ended}
    assert states["hasty"] == ("aborted", pytest.approx(3.1))
    assert states["long"][0] == "finished"


def test_crash_fails_what_it_had_and_comes_back_cold() -> None:
    ended: list[Sequence] = []
    fleet = fleet_of(Topology(aggregated=2, router=RoundRobin), ended)
    Fault("crash", 1.0, 0).lay_on(fleet, (), 0.0)
    for index in range(4):
        fleet.submit(Ask(str(index), 100, 1000), 0.0)
    fleet.settle(30.0)
    assert sorted(sequence.state for sequence in ended) == ["failed", "failed", "finished", "finished"]
    assert [replica.phase for replica in fleet.replicas] == ["ready", "starting"]
    fleet.settle(62.0)
    assert [replica.phase for replica in fleet.replicas] == ["ready", "ready"]


def test_without_any_replica_requests_are_refused() -> None:
    ended: list[Sequence] = []
    fleet = fleet_of(Topology(), ended)
    fleet.scale(0, 0.0)
    fleet.submit(Ask("a", 10, 10), 1.0)
    assert (fleet.refused, ended[0].state) == (1, "failed")


def test_scaling_down_drains_first() -> None:
    """The newest replica takes nothing more, and goes when its request is done."""
    ended: list[Sequence] = []
    fleet = fleet_of(Topology(aggregated=2, router=RoundRobin), ended)
    for index in range(2):
        fleet.submit(Ask(str(index), 100, 1000), 0.0)
    fleet.scale(1, 1.0)
    assert [replica.phase for replica in fleet.replicas] == ["ready", "draining"]
    fleet.settle(60.0)
    assert [replica.phase for replica in fleet.replicas] == ["ready"]
    assert [sequence.state for sequence in ended] == ["finished", "finished"]


def test_topology_text() -> None:
    topology = parse_topology("pd:2:3")
    assert (topology.aggregated, topology.prefill, topology.decode) == (0, 2, 3)


def test_a_fleet_may_mix_gpu_types_with_a_price_each() -> None:
    """An H100 beside an H200: its steps take longer, and its hour costs less."""
    plants = PLANTS["llama8b_h200"], PLANTS["llama8b_h100"]
    ended: list[Sequence] = []
    fleet = fleet_of(Topology(aggregated=2, router=RoundRobin, mixed=plants), ended)
    for index in range(2):
        fleet.submit(Ask(str(index), 100, 100), 0.0)
    fleet.settle(10.0)
    assert [(each.gpu_type, each.dollars_per_hour) for each in fleet.replicas] == [("H200", 5.75), ("H100", 4.5)]
    assert [sequence.replica for sequence in ended] == ["sim-0", "sim-1"]


@pytest.mark.parametrize("name", sorted(PLANTS))
def test_every_plant_serves(name: str) -> None:
    """Thirty requests on each: all end, with all their tokens."""
    ended: list[Sequence] = []
    fleet = fleet_of(Topology(), ended, PLANTS[name])
    for index in range(30):
        fleet.submit(Ask(str(index), 2000, 40), index * 0.1)
    fleet.settle(120.0)
    assert [sequence.state for sequence in ended] == ["finished"] * 30
    assert {sequence.generated_tokens for sequence in ended} == {40}
