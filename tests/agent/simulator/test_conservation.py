"""Nothing is lost and nothing is negative: blocks, tokens and requests, whatever arrives and whatever is aborted."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.simulator.ask import Ask, Sequence
from agent.simulator.blocks import BlockPool
from agent.simulator.catalogue import histogram_edges
from agent.simulator.engine import Engine, EngineConfig
from agent.simulator.step_time import LinearStepTime
from agent.simulator.telemetry import GapLog, Telemetry

EVENTS = st.lists(
    st.tuples(
        st.floats(0.0, 0.5),  # seconds since the event before
        st.integers(1, 900),  # prompt tokens
        st.integers(1, 120),  # output tokens
        st.integers(0, 3),  # which family of shared prefixes
        st.booleans(),  # whether an earlier request is aborted now
    ),
    min_size=1,
    max_size=25,
)
LAW = LinearStepTime(decode_seconds_per_kv_token=1e-6)


def held_blocks(engine: Engine) -> int:
    """Blocks in use, counted from the sequences' side: shared ones once."""
    living = list(engine.scheduler.everyone())
    shared = {block for sequence in living for block in sequence.shared_hashes}
    private = sum(sequence.held_blocks - len(sequence.shared_hashes) for sequence in living)
    return len(shared) + private


def check(engine: Engine) -> None:
    pool = engine.pool
    assert pool.free_blocks >= 0
    assert pool.free_blocks == sum(pool._queue.values())
    assert pool.total_blocks == pool.free_blocks + pool.leaked_blocks + held_blocks(engine)
    assert all(count >= 0 for count in pool._holders.values())
    assert engine.requests_running <= engine.config.max_num_seqs
    for sequence in engine.scheduler.running:
        assert 0 <= sequence.resident_tokens <= sequence.known_tokens
        assert sequence.resident_tokens <= sequence.held_blocks * engine.config.block_tokens


@settings(max_examples=150, deadline=None)
@given(events=EVENTS, blocks=st.integers(70, 200), budget=st.integers(16, 600), seqs=st.integers(1, 8))
def test_requests_tokens_and_blocks_are_conserved(
    events: list[tuple[float, int, int, int, bool]], blocks: int, budget: int, seqs: int
) -> None:
    """Every request ends in exactly one state, every token is counted once, every block comes back."""
    config = EngineConfig(
        num_gpu_blocks=blocks, max_num_batched_tokens=budget, max_num_seqs=seqs, front_end_seconds=0.001
    )
    gaps, ended = GapLog(), list[Sequence]()
    engine = Engine(config, LAW, Telemetry(histogram_edges(config.max_model_len), gaps=gaps))
    asked: list[Sequence] = []
    now = 0.0
    for index, (pause, prompt, output, family, aborts) in enumerate(events):
        now += pause
        engine.advance(now)
        check(engine)
        if aborts and asked:
            engine.abort(asked[len(asked) // 2], now)
            check(engine)
        hashes = tuple(family * 1000 + block for block in range(prompt // 16)) if family else ()
        sequence = engine.submit(Ask(str(index), prompt, output, hashes), now)
        sequence.on_end = ended.append
        asked.append(sequence)
    engine.advance(now + 10_000.0)
    check(engine)
    assert engine.unfinished == 0
    assert engine.pool.free_blocks == blocks
    assert all(sequence.state in ("finished", "aborted", "failed") for sequence in asked)
    assert len(ended) == len({id(sequence) for sequence in ended})
    finished = [sequence for sequence in asked if sequence.state == "finished"]
    assert all(sequence.generated_tokens == sequence.ask.output_tokens for sequence in finished)
    assert engine.telemetry.generation_tokens == sum(sequence.generated_tokens for sequence in asked)
    assert engine.telemetry.counters.get(("request_success", "length"), 0) == len(finished)
    with_token = [sequence for sequence in asked if sequence.first_token_at_seconds is not None]
    assert engine.telemetry.histograms["time_to_first_token_seconds"].count == len(with_token)
    expected_gaps = sum(sequence.generated_tokens - 1 for sequence in with_token)
    assert engine.telemetry.histograms["inter_token_latency_seconds"].count == expected_gaps
    assert sum(steps * times for _, _, steps, times in gaps.lines) == expected_gaps
    by_source = sum(
        engine.telemetry.counters.get(("prompt_tokens_by_source", source), 0)
        for source in ("local_compute", "local_cache_hit", "external_kv_transfer")
    )
    assert by_source == engine.telemetry.counters.get(("prompt_tokens", ""), 0)


@settings(max_examples=100, deadline=None)
@given(
    moves=st.lists(st.tuples(st.booleans(), st.integers(1, 40), st.integers(0, 4)), max_size=60),
    total=st.integers(20, 120),
)
def test_pool_never_loses_a_block(moves: list[tuple[bool, int, int]], total: int) -> None:
    """Any order of growing, sharing and releasing: free and held blocks always add up."""
    pool = BlockPool(total, 16)
    holders: list[Sequence] = []
    for index, (releases, size, family) in enumerate(moves):
        if releases and holders:
            pool.release(holders.pop(size % len(holders)))
        else:
            hashes = tuple(family * 100 + block for block in range(size)) if family else ()
            sequence = Sequence(Ask(str(index), size * 16, 1, hashes), 0.0)
            pool.reuse(sequence, pool.hit_blocks(hashes))
            if pool.grow(sequence, size * 16):
                holders.append(sequence)
            else:
                pool.release(sequence)
        shared = {block for holder in holders for block in holder.shared_hashes}
        private = sum(holder.held_blocks - len(holder.shared_hashes) for holder in holders)
        assert pool.free_blocks == total - len(shared) - private == sum(pool._queue.values())


@settings(max_examples=60, deadline=None)
@given(first=st.floats(0.0, 0.3), increment=st.floats(0.0, 0.01), steps=st.integers(1, 200), times=st.integers(1, 5))
def test_a_counted_line_is_its_values_counted_one_by_one(
    first: float, increment: float, steps: int, times: int
) -> None:
    """The closed form puts every step into the bucket in which it belongs, up to rounding at an edge."""
    edges = (0.01, 0.025, 0.05, 0.1, 0.3)
    line, single = (Telemetry({"inter_token_latency_seconds": edges, "iteration_tokens_total": (1.0,)}) for _ in "ab")
    line.gap_line(first, increment, steps, times)
    for step in range(steps):
        single.gap_line(first + step * increment, 0.0, 1, times)
    ours, theirs = (each.histograms["inter_token_latency_seconds"] for each in (line, single))
    assert ours.count == theirs.count
    assert abs(ours.total - theirs.total) < 1e-6 * max(1.0, theirs.total)
    assert all(abs(mine - yours) <= times for mine, yours in zip(ours.cumulative(), theirs.cumulative(), strict=True))
