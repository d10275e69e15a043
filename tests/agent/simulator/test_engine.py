"""One engine: its arithmetic, worked out by hand."""

import pytest

from agent.simulator.ask import Ask, Sequence
from agent.simulator.catalogue import histogram_edges
from agent.simulator.engine import Engine, EngineConfig
from agent.simulator.step_accounts import Speculation
from agent.simulator.step_time import LinearStepTime
from agent.simulator.telemetry import GapLog, Telemetry

LAW = LinearStepTime(
    overhead_seconds=0.005,
    prefill_seconds_per_token=20e-6,
    decode_seconds_per_kv_token=1e-6,
    decode_seconds_per_sequence=0,
)


def engine(*, gaps: GapLog | None = None, **changes: float | bool) -> Engine:
    plain = {"num_gpu_blocks": 1000, "front_end_seconds": 0.01}
    config = EngineConfig(**{**plain, **changes})  # type: ignore[arg-type] # the fields are given by name
    return Engine(config, LAW, Telemetry(histogram_edges(config.max_model_len), gaps=gaps))


def test_first_token_is_front_end_then_one_step() -> None:
    """1000 tokens: 10 ms front end + 5 ms + 20 ms prefill + 1 ms for 1000 resident tokens = 36 ms."""
    one = engine()
    sequence = one.submit(Ask("a", 1000, 2), 0.0)
    one.advance(1.0)
    assert sequence.first_token_at_seconds == pytest.approx(0.036)
    # the second step decodes with 1001 resident tokens: 5 ms + 1.001 ms
    assert sequence.ended_at_seconds == pytest.approx(0.036 + 0.006001)
    assert sequence.state == "finished"


def test_long_prompt_is_cut_into_chunks_of_the_budget() -> None:
    """2500 tokens with a budget of 1000 take three steps; vLLM counts them as three iterations."""
    one = engine(max_num_batched_tokens=1000)
    one.submit(Ask("a", 2500, 1), 0.0)
    one.advance(1.0)
    assert one.telemetry.steps == 3
    assert one.telemetry.histograms["iteration_tokens_total"].total == 2500


def test_a_prefill_delays_everyone_who_decodes() -> None:
    """The step that carries a 1000-token prompt is one long gap for the request that is decoding."""
    gaps = GapLog()
    one = engine(gaps=gaps)
    one.submit(Ask("a", 16, 50), 0.0)
    one.advance(0.05)
    one.submit(Ask("b", 1000, 1), 0.05)
    one.advance(1.0)
    long_gaps = [gap for gap, times in gaps.weighted() if gap > 0.02]
    assert len(long_gaps) == 1
    assert long_gaps[0] == pytest.approx(0.005 + 0.02 + 0.001, abs=1e-4)


def test_max_num_seqs_keeps_the_rest_waiting() -> None:
    one = engine(max_num_seqs=2)
    for name in "abc":
        one.submit(Ask(name, 16, 1000), 0.0)
    one.advance(1.0)
    assert (one.requests_running, one.requests_waiting) == (2, 1)


def test_shared_prefix_is_computed_once() -> None:
    """The second request finds 60 blocks of 16 tokens, so it computes 40 of its 1000 tokens."""
    one = engine()
    hashes = tuple(range(60))
    for at, name in ((0.0, "a"), (1.0, "b")):
        one.advance(at)
        last = one.submit(Ask(name, 1000, 1, hashes), at)
    one.advance(2.0)
    assert last.cached_tokens == 960
    assert one.telemetry.counters["prompt_tokens_by_source", "local_compute"] == 1000 + 40


def test_full_hit_still_computes_its_last_block() -> None:
    """vLLM gives the last block of a full hit back: without computing a token there is no logit to sample from."""
    one = engine()
    for at in (0.0, 1.0):
        one.advance(at)
        last = one.submit(Ask(str(at), 64, 1, (1, 2, 3, 4)), at)
    one.advance(2.0)
    assert last.cached_tokens == 48


def test_preemption_when_blocks_run_out_and_everyone_still_ends() -> None:
    """Two answers of 400 tokens do not fit into 40 blocks of 16 at once: the younger one gives way and comes back."""
    one = engine(num_gpu_blocks=40)
    both = [one.submit(Ask(name, 100, 400), 0.0) for name in "ab"]
    one.advance(100.0)
    assert [sequence.state for sequence in both] == ["finished", "finished"]
    assert both[0].preemptions == 0
    assert both[1].preemptions >= 1
    assert one.telemetry.counters["num_preemptions", ""] == both[1].preemptions
    assert one.pool.free_blocks == 40


def test_abort_frees_its_blocks_and_is_not_counted_as_finished() -> None:
    """metrics.md 1.3: aborts by the client's disconnect are not in request_success."""
    one = engine()
    sequence = one.submit(Ask("a", 1000, 1000), 0.0)
    one.advance(0.5)
    one.abort(sequence, 0.5)
    one.advance(1.0)
    assert sequence.state == "aborted"
    assert one.pool.free_blocks == 1000
    assert not [key for key in one.telemetry.counters if key[0] == "request_success"]


def test_a_request_that_can_never_fit_fails_at_once() -> None:
    one = engine(num_gpu_blocks=10)
    assert one.submit(Ask("a", 200, 10), 0.0).state == "failed"


def test_stuck_engine_holds_its_step_and_goes_on() -> None:
    """Stuck for 10 s in the middle of decoding: exactly one gap of 10 s more, and nothing is lost."""
    gaps = GapLog()
    one = engine(gaps=gaps)
    sequence = one.submit(Ask("a", 16, 100), 0.0)
    one.stick(0.2)
    one.advance(10.2)
    assert not sequence.has_ended
    one.unstick(10.2)
    one.advance(60.0)
    assert sequence.state == "finished"
    assert [gap > 10 for gap, _ in gaps.weighted()].count(True) == 1


def test_slow_gpu_stretches_steps() -> None:
    """Twice as slow from the beginning: twice the time after the front end."""
    one = engine()
    one.set_slowdown(2.0, 0.0)
    sequence = one.submit(Ask("a", 1000, 1), 0.0)
    one.advance(1.0)
    assert sequence.first_token_at_seconds == pytest.approx(0.01 + 2 * 0.026)


def test_looking_often_changes_nothing() -> None:
    """Advancing in a thousand small steps gives the same stamps as in one."""

    def stamps(looks: int) -> list[float]:
        one = engine()
        sequences: list[Sequence] = []
        for index in range(20):
            one.advance(index * 0.05)
            sequences.append(one.submit(Ask(str(index), 100 + 37 * index, 40), index * 0.05))
        for look in range(looks):
            one.advance(1.0 + (look + 1) * 9.0 / looks)
        return [sequence.ended_at_seconds or -1.0 for sequence in sequences]

    assert stamps(1000) == pytest.approx(stamps(1), abs=1e-9)


def test_speculation_gives_several_tokens_a_step() -> None:
    """Three drafts, each accepted with 0.7: 1 + 0.7 + 0.49 + 0.343 = 2.53 tokens a step on average."""
    one = engine(speculation=Speculation(3, 0.7))
    sequence = one.submit(Ask("a", 16, 4001), 0.0)
    one.advance(100.0)
    assert sequence.generated_tokens == 4001
    assert 4000 / (one.telemetry.steps - 1) == pytest.approx(2.533, rel=0.05)
    assert one.telemetry.histograms["inter_token_latency_seconds"].count == one.telemetry.steps - 1


def test_urgent_requests_go_first_where_priority_is_on() -> None:
    """One at a time: of two that wait, the one with the lower number runs first though it came later."""
    one = engine(by_priority=True, max_num_seqs=1)
    first = one.submit(Ask("busy", 16, 100), 0.0)
    late = [one.submit(Ask(name, 16, 1, priority=rank), 0.01) for name, rank in (("calm", 5), ("urgent", 0))]
    one.advance(10.0)
    assert first.has_ended
    assert (late[1].first_token_at_seconds or 0.0) < (late[0].first_token_at_seconds or 0.0)
