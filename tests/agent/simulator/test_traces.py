"""Published traces, read and replayed."""

import os
from itertools import islice
from pathlib import Path

import pytest

from agent.simulator.ask import Sequence
from agent.simulator.engine import EngineConfig
from agent.simulator.plant import Plant
from agent.simulator.seeds import stream
from agent.simulator.step_time import LinearStepTime
from agent.simulator.topology import Topology
from agent.simulator.traces import Replay, azure, mooncake, servegen, windowed

SHARED = Path(os.environ.get("SLO_AGENT_SHARED", Path(__file__).parents[4] / "shared"))
NO_TIME = LinearStepTime(1e-6, 0.0, 0.0, 0.0)


def trace(*parts: str) -> Path:
    path = SHARED.joinpath("data", "traces", *parts)
    if not path.exists():
        pytest.skip(f"needs the trace {path} (set SLO_AGENT_SHARED)")
    return path


def test_mooncake_conversation_hits_36_64_percent_of_its_blocks_with_an_unbounded_cache() -> None:
    """data/SOURCES.md: 36.64 %; that is 105,710 of 288,500 blocks, and the engine's cache finds exactly those."""
    ended: list[Sequence] = []
    config = EngineConfig(
        block_tokens=512,
        num_gpu_blocks=2_000_000,
        max_model_len=200_000,
        max_num_batched_tokens=10_000_000,
        max_num_seqs=100_000,
        front_end_seconds=0.0,
    )
    workload = Replay(mooncake(trace("mooncake_conversation_trace.jsonl")), 0.0)
    fleet = Topology().fleet(Plant(config, law=lambda _: NO_TIME), workload, 0.0, on_end=ended.append)
    fleet.settle(4000.0)
    assert len(ended) == 12_031
    assert {sequence.state for sequence in ended} == {"finished"}
    found = sum(sequence.found_blocks for sequence in ended)
    blocks = sum(len(sequence.ask.block_hashes) for sequence in ended)
    assert (found, blocks) == (105_710, 288_500)
    assert round(100 * found / blocks, 2) == 36.64


def test_azure_is_an_hour_of_19366_requests() -> None:
    """facts/recommend.md 6: 19,366 requests, ISL mean 1155, OSL mean 211, 5.5 requests/s."""
    requests = list(azure(trace("AzureLLMInferenceTrace_conv.csv")))
    assert len(requests) == 19_366
    assert sum(ask.prompt_tokens for _, ask in requests) / len(requests) == pytest.approx(1155, abs=1)
    assert sum(ask.output_tokens for _, ask in requests) / len(requests) == pytest.approx(211, abs=1)
    assert len(requests) / requests[-1][0] == pytest.approx(5.5, abs=0.1)


def test_servegen_windows_carry_rate_cv_and_lengths() -> None:
    """The first window of the reasoning client: 2.53 requests/s, CV 1.00."""
    windows = servegen(
        trace("servegen", "reason__deepseek-r1__chunk-48-trace.csv"),
        trace("servegen", "reason__deepseek-r1__chunk-48-dataset.json"),
    )
    assert (windows[0].rate_per_second, windows[0].cv) == (
        pytest.approx(2.533, abs=1e-3),
        pytest.approx(1.004, abs=1e-3),
    )
    workload = windowed(windows, stream(1, "arrivals"), stream(1, "prompts"), 0.0)
    arrivals = 0
    while workload.next_seconds(600.0) <= 600.0:
        ask = workload.take()
        assert ask.prompt_tokens >= 1
        arrivals += 1
    assert arrivals == pytest.approx(600 * 2.533, rel=0.15)


def test_replay_moves_and_speeds_up() -> None:
    """Twice as fast from t = 100 on: what was at 8.6 s is at 104.3 s."""
    recorded = list(islice(azure(trace("AzureLLMInferenceTrace_conv.csv")), 3))
    workload = Replay(iter(recorded), 100.0, speed=2.0)
    stamps = []
    for _ in recorded:
        stamps.append(workload.next_seconds(1e9))
        workload.take()
    assert stamps == pytest.approx([100 + at / 2 for at, _ in recorded])
