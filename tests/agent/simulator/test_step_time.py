"""The constants are the measured ones, and the plants that advice does not assume differ in the way they say."""

import os
import re
from pathlib import Path

import pytest

from agent.simulator import pd, step_time
from agent.simulator.seeds import stream
from agent.simulator.step_time import LinearStepTime

SHARED = Path(os.environ.get("SLO_AGENT_SHARED", Path(__file__).parents[4] / "shared"))


def facts() -> str:
    path = SHARED / "facts" / "h200.md"
    if not path.exists():
        pytest.skip(f"needs {path} (set SLO_AGENT_SHARED)")
    return path.read_text()


def test_the_law_is_the_one_that_was_fitted() -> None:
    """Nothing is tuned: T0, c_p, c_k and c_d stand in facts/h200.md as they stand here."""
    found = re.search(r"T0 = ([\d.]+) ms, c_p = ([\d.]+) µs a token, c_k = ([\d.]+) ns [^,]+, c_d = (\d+)", facts())
    assert found is not None
    overhead, prefill, kv, sequence = map(float, found.groups())
    assert LinearStepTime() == LinearStepTime(
        pytest.approx(overhead * 1e-3), pytest.approx(prefill * 1e-6), pytest.approx(kv * 1e-9), sequence
    )


def test_the_front_end_is_measured_minus_fitted() -> None:
    """TTFT p50 229 ms at concurrency 1, less T0 + c_p·8192 = 210.3 ms, is about 18 ms."""
    law = LinearStepTime()
    assert pytest.approx(0.229 - law.seconds(8192, 0, 0, 0), abs=1e-3) == step_time.FRONT_END_SECONDS
    assert "about 18 ms are the front end and the client" in facts()


def test_the_link_passes_through_both_measured_transfers() -> None:
    """30,406 descriptors: 104 ms post, 137 ms in all on average; 4,050: 10.1 and 26.6; the first transfer included."""
    link = pd.Link()
    fine = (168 * link.post_seconds(30_392) + link.first_post_seconds) / 169
    coarse = (63 * link.post_seconds(4_050) + link.first_post_seconds) / 64
    assert fine == pytest.approx(0.104, rel=0.01)
    assert coarse == pytest.approx(0.0101, rel=0.01)
    assert fine + link.wire_seconds(7_601, 30_406) == pytest.approx(0.137, rel=0.01)
    assert coarse + link.wire_seconds(8_100, 4_050) == pytest.approx(0.0266, rel=0.01)
    assert link.descriptors(8192, 16) == 32_768


def test_a_line_is_what_single_steps_give() -> None:
    """A run of decode steps and one step after another agree, wherever a law offers a line."""
    for law in (
        LinearStepTime(),
        step_time.QuadraticStepTime(),
        step_time.MoeStepTime(),
        step_time.TensorParallelStepTime(),
        step_time.HybridStepTime(),
    ):
        line = law.decode_line(8, 60_000)
        assert line is not None
        for step in range(5):
            assert line[0] + step * line[1] == pytest.approx(law.seconds(0, 0, 8, 60_000 + 8 * step))


def test_quadratic_prefill_grows_faster_than_its_length() -> None:
    """One chunk of 8192 at the start of a prompt is cheaper than the same chunk 24k tokens further on."""
    law = step_time.QuadraticStepTime()
    early = law.seconds(8192, 8192 * 8191 / 2, 0, 8192)
    late = law.seconds(8192, 8192 * 24_576 + 8192 * 8191 / 2, 0, 32_768)
    assert late > 1.5 * early


def test_moe_overhead_rises_with_the_batch_and_levels_off() -> None:
    """One token wakes 4 of 128 experts, many tokens wake all of them."""
    law = step_time.MoeStepTime()
    one, some, many = (law.seconds(0, 0, sequences, 0) for sequences in (1, 128, 1000))
    assert one < some < many
    assert many - some < some - one


def test_tensor_parallel_pays_per_token_for_talking() -> None:
    """Two GPUs halve the work, and pay a fixed and a per-token cost."""
    law = step_time.TensorParallelStepTime()
    assert law.seconds(8192, 0, 0, 0) > LinearStepTime().seconds(8192, 0, 0, 0) / law.gpus
    assert law.seconds(8192, 0, 0, 0) < LinearStepTime().seconds(8192, 0, 0, 0)


def test_hybrid_cache_stops_reading_beyond_its_window() -> None:
    """With 1024-token windows in half the layers, KV beyond them costs half."""
    law = step_time.HybridStepTime()
    beyond = law.seconds(0, 0, 1, 9_000) - law.seconds(0, 0, 1, 8_000)
    inside = law.seconds(0, 0, 1, 900) - law.seconds(0, 0, 1, 800)
    assert beyond / 1000 == pytest.approx(inside / 100 / 2)


def test_jitter_has_a_heavy_tail_and_keeps_the_mean() -> None:
    law = step_time.JitteredStepTime(LinearStepTime(), stream(1, "jitter"))
    times = sorted(law.seconds(0, 0, 8, 60_000) for _ in range(20_000))
    base = LinearStepTime().seconds(0, 0, 8, 60_000)
    assert sum(times) / len(times) == pytest.approx(base, rel=0.05)
    assert times[int(len(times) * 0.999)] > 3 * base
    assert law.decode_line(8, 60_000) is None
