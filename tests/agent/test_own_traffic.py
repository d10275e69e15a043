"""Our canaries in the engine's counts: found again, exactly where buckets tell, as an interval where they do not."""

import math
from dataclasses import replace

import pytest
from fake_engine import FakeEngine

from agent.model import BurnPair, Slo
from agent.signals.read import Question, read_signals
from agent.sli.count import PendingBook, TargetFacts, count_events
from agent.stats.buckets import Buckets
from agent.windows import EngineKey, Increment, Windows
from probes.sample import SentRequest

KEY = EngineKey("vllm-0", "vllm", "0", "m")
FINISHED = ("requests_finished_total", "length")
EDGES = (0.1, 0.25, 0.5, math.inf)
CANARY = SentRequest(
    sent_at_seconds=12.0,
    ended_at_seconds=12.5,
    model="m",
    first_token_at_seconds=12.2,
    head_seconds=0.005,
    ttft_seconds=0.2,
    tpot_seconds=0.02,
    e2e_seconds=0.5,
    itl_gaps_seconds=(0.02, 0.02),
    prompt_tokens=9,
    output_tokens=3,
    finish_reason="length",
    timing_error_seconds=0.0001,
)


def step(
    since: float, until: float, ttft: tuple[float, ...], finished: float = 0.0, *, restarted: bool = False
) -> Increment:
    histograms = {"ttft_seconds": Buckets(EDGES, ttft, None)}
    return Increment(KEY, since, until, {("requests_finished_total", "length"): finished}, histograms, {}, restarted)


def found(windows: Windows, *steps: Increment, now: float | None = None) -> list[tuple[tuple[float, ...], ...]]:
    """Our first tokens in each increment that is counted: as low, and as high, as they can lie."""
    windows._fresh_increments += steps
    counted, _, _ = windows.drain(now)
    nothing = (0.0,) * len(EDGES)
    return [
        (own.low.counts, own.high.counts)
        if i.own and (own := i.own.histograms.get("ttft_seconds"))
        else (nothing, nothing)
        for i in counted
    ]


def test_an_observation_within_one_bucket_is_taken_out_exactly() -> None:
    """TTFT 0.2 s as the client felt it, at least 0.185 for the engine: the bucket up to 0.25."""
    windows = Windows()
    windows.own.end("vllm-0", [CANARY])
    assert found(windows, step(0, 10, (5, 5, 5, 5)), step(10, 20, (1, 3, 1, 0))) == [
        ((0, 0, 0, 0), (0, 0, 0, 0)),
        ((0, 1, 0, 0), (0, 1, 0, 0)),
    ]


def test_an_edge_within_the_error_leaves_an_interval() -> None:
    windows = Windows()
    windows.own.end("vllm-0", [replace(CANARY, ttft_seconds=0.252)])
    assert found(windows, step(10, 20, (1, 3, 1, 0))) == [((0, 1, 0, 0), (0, 0, 1, 0))]


def test_an_interval_of_which_one_bucket_is_empty_is_exact() -> None:
    windows = Windows()
    windows.own.end("vllm-0", [replace(CANARY, ttft_seconds=0.252)])
    assert found(windows, step(10, 20, (1, 0, 1, 0))) == [((0, 0, 1, 0), (0, 0, 1, 0))]


def test_an_engine_far_faster_than_the_client_felt_is_found_in_the_nearest_bucket() -> None:
    windows = Windows()
    windows.own.end("vllm-0", [CANARY])
    assert found(windows, step(10, 20, (1, 0, 0, 2))) == [((1, 0, 0, 0), (1, 0, 0, 0))]


def test_what_straddles_two_pages_is_looked_for_in_both() -> None:
    """The page of 12.1 s is of some instant before: a first token of 12.05 s may stand on the next one only."""
    windows = Windows()
    windows.own.end("vllm-0", [replace(CANARY, first_token_at_seconds=12.05)])
    assert found(windows, step(10, 12.1, (0, 0, 0, 0)), step(12.1, 20, (0, 1, 0, 0)))[1] == ((0, 1, 0, 0), (0, 1, 0, 0))


def test_what_happened_before_the_first_page_is_in_no_increment() -> None:
    windows = Windows()
    windows.own.end("vllm-0", [CANARY])
    first = Increment(KEY, 15, 15, {}, {}, {}, restarted=False)
    assert found(windows, first, step(15, 25, (0, 1, 0, 0)))[1] == ((0, 0, 0, 0), (0, 0, 0, 0))


def test_what_a_restart_took_away_is_not_looked_for_in_the_new_process() -> None:
    windows = Windows()
    assert found(windows, step(0, 10, (0, 0, 0, 0)), step(14, 20, (0, 1, 0, 0), restarted=True))
    windows.own.end("vllm-0", [CANARY])
    assert found(windows, step(20, 30, (0, 1, 0, 0))) == [((0, 0, 0, 0), (0, 0, 0, 0))]


def counted_of(windows: Windows, *steps: Increment) -> dict[tuple[str, str], float]:
    """How many finished requests are taken to be ours, by engine and model."""
    windows._fresh_increments += steps
    counted, _, _ = windows.drain()
    ours = {(i.key.engine, i.key.model): i.own.counters.get(FINISHED, 0.0) if i.own else 0.0 for i in counted}
    return {place: count for place, count in ours.items() if count}


def beside(engine: str = "0", model: str = "m", until: float = 20.0) -> Increment:
    """Another engine, or another model, of the same page, with one finished request."""
    return replace(step(10, until, (0, 1, 0, 0), 1.0), key=EngineKey("vllm-0", "vllm", engine, model))


def test_of_several_models_on_a_page_the_one_that_was_asked_has_the_canary() -> None:
    """The first model on the page was asked by a user at the same time: that request is the user's."""
    windows = Windows()
    windows.own.end("vllm-0", [replace(CANARY, model="n")])
    assert counted_of(windows, beside(model="m"), beside(model="n")) == {("0", "n"): 1.0}


def test_an_adapter_is_counted_under_the_name_that_the_page_has() -> None:
    """vLLM counts an adapter's requests, and those of a second served name, under the first served name."""
    windows = Windows()
    windows.own.end("vllm-0", [replace(CANARY, model="my-adapter")])
    assert counted_of(windows, beside()) == {("0", "m"): 1.0}


def test_of_several_ranks_the_one_that_was_asked_has_the_canary() -> None:
    windows = Windows()
    windows.own.end("vllm-0", [replace(CANARY, rank="1")])
    assert counted_of(windows, beside("0"), beside("1")) == {("1", "m"): 1.0}


def test_a_rank_that_the_server_did_not_heed_is_looked_for_elsewhere() -> None:
    """A gateway may strip the header: the page after the canary shows nothing on rank 1, so rank 0 has it."""
    windows = Windows()
    windows.own.end("vllm-0", [replace(CANARY, rank="1")])
    idle = replace(beside("1"), counters={FINISHED: 0.0}, histograms={})
    assert counted_of(windows, beside("0"), idle) == {("0", "m"): 1.0}


def test_a_page_waits_for_the_canary_that_may_be_on_it() -> None:
    windows = Windows()
    windows.own.begin("vllm-0", 12.0)
    assert found(windows, step(10, 20, (0, 1, 0, 0)), now=21.0) == []
    windows.own.end("vllm-0", [CANARY])
    assert found(windows, now=22.0) == [((0, 1, 0, 0), (0, 1, 0, 0))]


def test_a_page_does_not_wait_for_ever_and_the_canary_is_taken_out_later() -> None:
    """Fifteen seconds on it is counted with the canary, which is in flight; what comes then makes up for it."""
    windows = Windows()
    windows.own.begin("vllm-0", 12.0)
    assert found(windows, step(10, 20, (0, 1, 0, 0)), now=35.1) == [((0, 0, 0, 0), (0, 0, 0, 0))]
    windows.own.end("vllm-0", [replace(CANARY, ended_at_seconds=40.0)])
    assert found(windows, step(40, 50, (0, 2, 0, 0)), now=51.0) == [((0, 1, 0, 0), (0, 1, 0, 0))]


def test_what_no_page_shows_is_forgotten() -> None:
    windows = Windows()
    windows.own.end("vllm-0", [CANARY])
    found(windows, step(10, 20, (0, 0, 0, 0)))
    found(windows, step(20, 80, (0, 0, 0, 0)))
    assert found(windows, step(80, 90, (0, 1, 0, 0))) == [((0, 0, 0, 0), (0, 0, 0, 0))]


def test_a_stream_that_broke_off_has_no_finished_request() -> None:
    windows = Windows()
    windows.own.end("vllm-0", [replace(CANARY, finish_reason="")])
    windows._fresh_increments.append(step(10, 20, (0, 1, 0, 0), finished=4))
    ((increment,), _, _) = windows.drain()
    assert increment.own is not None
    assert "ttft_seconds" in increment.own.histograms
    assert increment.users("requests_finished_total") == {"length": 4}


def slo(threshold: float) -> Slo:
    return Slo("ttft", "chat", "ttft", "engine", 0.99, 3600.0, (BurnPair("page", "fast", 5, 60, 10),), threshold)


def counted(ttft: float, threshold: float) -> tuple[float, float, float]:
    """One user with a first token after 0.2 s beside one canary of `ttft`; good, bad and undecided events."""
    engine, windows, book = FakeEngine(started_at_seconds=0.0), Windows(), PendingBook()
    windows.take(engine.reading(10))
    engine.finish(1, ttft=0.2, why="stop")
    engine.finish(1, ttft=ttft, why="stop")
    windows.take(engine.reading(20))
    windows.own.end("vllm-0", [replace(CANARY, ttft_seconds=ttft, finish_reason="stop")])
    count_events((slo(threshold),), {"vllm-0": TargetFacts("m", "aggregated", "chat")}, windows, book, 21.0)
    counts = windows.events["ttft"].total()
    return counts.good, counts.bad, counts.undecided


@pytest.mark.parametrize(
    ("ttft", "threshold", "expected"),
    [
        (0.3, 2.5, (1, 0, 0)),  # both good: the user's is left
        (5.1, 2.5, (1, 0, 0)),  # the canary was slow, no user was
        (0.3, 0.5, (1, 0, 0)),  # an interval over the edge 0.5? no: 0.3 is below it for certain
    ],
)
def test_only_users_are_events(ttft: float, threshold: float, expected: tuple[float, float, float]) -> None:
    assert counted(ttft, threshold) == expected


def test_an_endpoint_without_users_has_no_events() -> None:
    engine, windows, book = FakeEngine(started_at_seconds=0.0), Windows(), PendingBook()
    windows.take(engine.reading(10))
    engine.finish(1, ttft=0.2, e2e=0.5, tpot=0.02, why="stop")
    windows.take(engine.reading(20))
    windows.own.end("vllm-0", [replace(CANARY, finish_reason="stop")])
    count_events((slo(2.5),), {"vllm-0": TargetFacts("m", "aggregated", "chat")}, windows, book, 21.0)
    signals = read_signals(windows, 0, 21, ["vllm-0"], Question())
    assert windows.events["ttft"].total().total == 0
    assert (signals.requests_finished, signals.ttft_seconds, signals.probe_share_ratio) == (0, None, 1.0)


def test_an_embedding_is_taken_out_of_everything_that_counts_it() -> None:
    """What vLLM 0.32 adds for one (tests/live/test_real_embedding.py): a finished request, its prompt, TTFT = E2E, a
    TPOT of 0, no gap and no token. One user asked as well, and alone is left.
    """
    engine, windows = FakeEngine(started_at_seconds=0.0), Windows()
    windows.take(engine.reading(10))
    for took in (0.2, 0.3):
        engine.finished["stop"] += 1
        engine.observe("ttft_seconds", took)
        engine.observe("e2e_seconds", took)
        engine.observe("tpot_seconds", 0.0)
    windows.take(engine.reading(20))
    sent = replace(
        CANARY,
        ended_at_seconds=12.2,
        head_seconds=0.0,
        tpot_seconds=None,
        e2e_seconds=0.2,
        itl_gaps_seconds=(),
        output_tokens=0,
        finish_reason="stop",
    )
    windows.own.end("vllm-0", [sent])
    windows.drain()
    signals = read_signals(windows, 0, 21, ["vllm-0"], Question())
    assert (signals.requests_finished, signals.probe_share_ratio) == (1.0, 0.5)
    latencies = (signals.ttft_seconds, signals.e2e_seconds, signals.tpot_seconds)
    assert [latency.count if latency else None for latency in latencies] == [1, 1, 1]


def test_signals_wait_as_slos_do() -> None:
    """A page that may hold a canary without a result is in no figure yet: it would show a user who is none."""
    engine, windows = FakeEngine(started_at_seconds=0.0), Windows()
    windows.take(engine.reading(10))
    windows.own.begin("vllm-0", 12.0)
    engine.finish(1, ttft=0.2)
    windows.take(engine.reading(20))
    windows.drain(21.0)
    assert read_signals(windows, 0, 22, ["vllm-0"], Question()).requests_finished is None
    windows.own.end("vllm-0", [replace(CANARY, finish_reason="stop")])
    windows.drain(22.0)
    assert read_signals(windows, 0, 22, ["vllm-0"], Question()).requests_finished == 0


def test_percentiles_hold_wherever_an_ambiguous_one_lies() -> None:
    """Three users at 0.3 s and one canary that lies below or above 0.5 s: p99 is in (0.1, 1.0]."""
    engine, windows = FakeEngine(started_at_seconds=0.0), Windows()
    windows.take(engine.reading(10))
    engine.finish(3, ttft=0.3)
    engine.finish(1, ttft=0.505)
    windows.take(engine.reading(20))
    windows.own.end("vllm-0", [replace(CANARY, ttft_seconds=0.505)])
    windows.drain()
    latency = read_signals(windows, 0, 21, ["vllm-0"], Question()).ttft_seconds
    assert latency is not None
    assert latency.p99 is not None
    assert (latency.count, latency.p99.low, latency.p99.high) == (3, 0.1, 1.0)
