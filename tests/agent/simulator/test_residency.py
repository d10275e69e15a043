"""What caches tell of the time that KV lies in them: vLLM by block, LMCache by chunk."""

from agent.simulator.ask import Ask, Sequence
from agent.simulator.engine import EngineConfig
from agent.simulator.lmcache_page import lmcache_page
from agent.simulator.plant import Plant
from agent.simulator.tier import CacheTier, TierConnector
from agent.simulator.topology import Topology

BLOCK_BYTES = 16 * 131_072


def prompt(first_block: int) -> Sequence:
    return Sequence(Ask("r", 256, 1, tuple(range(first_block, first_block + 16))), 0.0)


def test_a_tier_tells_how_long_chunks_lay_and_when_they_were_missed() -> None:
    """Room for one prompt: used at 0 and 4 s, pushed out at 10 s (6 s idle), asked for again 5 s later."""
    tier = CacheTier(16 * BLOCK_BYTES)
    for block, at_seconds in ((0, 0.0), (0, 4.0), (100, 10.0), (0, 15.0)):
        tier.keep(prompt(block), at_seconds)
    told = tier.diary
    assert (told.reuse_gap_seconds.count, told.reuse_gap_seconds.total) == (16, 16 * 4.0)
    assert (told.idle_before_evict_seconds.count, told.idle_before_evict_seconds.total) == (32, 16 * 6.0 + 16 * 5.0)
    assert (told.evict_reuse_gap_seconds.count, told.evict_reuse_gap_seconds.total) == (16, 16 * 5.0)
    assert 'lmcache_mp_l1_chunk_evict_reuse_gap_seconds_count{l1_tag="_default"} 16.0' in lmcache_page(tier, "m")


def test_a_chunk_that_nobody_misses_counts_as_300_seconds() -> None:
    """LMCache gives up waiting, and writes the time at which it did."""
    tier = CacheTier(16 * BLOCK_BYTES)
    for block, at_seconds in ((0, 0.0), (100, 10.0), (200, 400.0)):
        tier.keep(prompt(block), at_seconds)
    assert tier.diary.evict_reuse_gap_seconds.counts[6] == 16


def test_an_engine_tells_the_lives_of_evicted_blocks() -> None:
    """A pool of 40 blocks and two prompts of 16 that share nothing: reused at 10 and 30 s, evicted at 40 s."""
    plant = Plant(EngineConfig(num_gpu_blocks=40, front_end_seconds=0.0))
    fleet = Topology(page_groups=("kv_residency",)).fleet(plant, None, 0.0)
    for at_seconds, block in ((0.0, 0), (10.0, 0), (30.0, 0), (40.0, 100), (41.0, 200), (42.0, 300)):
        fleet.settle(at_seconds)
        fleet.submit(Ask("r", 270, 1, tuple(range(block, block + 16))), at_seconds)
    fleet.settle(50.0)
    gaps = fleet.replicas[0].engine.telemetry.histograms["kv_block_reuse_gap_seconds"]
    assert (gaps.count, gaps.total) == (16, 16 * 20.0)
    assert (
        'vllm:kv_block_reuse_gap_seconds_count{engine="0",model_name="llama8b"} 16.0' in fleet.replicas[0].page.text()
    )


def test_loads_of_vllms_own_offloading_are_counted_in_bytes_and_seconds() -> None:
    """240 shared blocks of 16 tokens come from a tier of 10 GB/s: their bytes over that rate."""
    tier = CacheTier(1e12, 10e9)
    topology = Topology(connector=lambda _, telemetry: TierConnector(tier, telemetry), page_groups=("kv_offload",))
    fleet = topology.fleet(Plant(EngineConfig(num_gpu_blocks=260, front_end_seconds=0.0)), None, 0.0)
    for index, block in enumerate((0, 1000, 0)):
        fleet.submit(Ask("r", 4090, 1, tuple(range(block, block + 255))), index * 5.0)
    fleet.settle(60.0)
    counters = fleet.replicas[0].engine.telemetry.counters
    loaded = counters["kv_offload_load_bytes", ""]
    assert loaded == tier.hit_tokens * 131_072 > 0
    assert counters["kv_offload_load_time", ""] == loaded / 10e9
    assert "vllm:kv_offload_load_bytes_total" in fleet.replicas[0].page.text()
