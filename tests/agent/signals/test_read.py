"""Signals of a window: what the pages prove, and None for what they do not."""

from dataclasses import dataclass, replace

import pytest
from fake_engine import FakeEngine, no_page, page_of
from hypothesis import given
from hypothesis import strategies as st

from agent.model import Figure
from agent.signals.economics import Energy
from agent.signals.model import Signals
from agent.signals.read import Question, read_each_and_all, read_signals
from agent.stats.goodput import GoodputTarget, per_second
from agent.windows import Windows
from probes.sample import ProbeResult, Reading, Sample

STEP = 10.0
TARGET = GoodputTarget(ttft_seconds=1.0, tpot_seconds=0.1)
ASKED = Question(TARGET, (("itl_seconds", 0.1), ("itl_seconds", 0.07)))


def seen(windows: Windows, start: float, end: float, *targets: str, asked: Question = ASKED) -> Signals:
    return read_signals(windows, start, end, targets or ("vllm-0",), asked)


@dataclass(frozen=True, slots=True)
class Request:
    """One request with a known truth. A client that hangs up leaves no end on the page."""

    at: float
    ttft: float
    decode: float
    tpot: float
    fate: str  # stop, error, hung_up

    @property
    def first_token_at(self) -> float:
        return self.at + self.ttft

    @property
    def ends_at(self) -> float:
        return self.first_token_at + self.decode

    @property
    def is_good(self) -> bool:
        return self.fate == "stop" and self.ttft <= TARGET.ttft_seconds and self.tpot <= TARGET.tpot_seconds


requests = st.lists(
    st.builds(
        Request,
        st.floats(0, 200),
        st.sampled_from((0.3, 0.9, 1.5, 4.0, 30.0)),
        st.floats(0.1, 60),
        st.sampled_from((0.02, 0.08, 0.3)),
        st.sampled_from(("stop", "stop", "stop", "error", "hung_up")),
    ),
    min_size=1,
    max_size=60,
)


def watched(traffic: list[Request], edges: tuple[float, ...] | None = None) -> Windows:
    """Pages every 10 s of an engine that lives through this traffic."""
    windows, engine = Windows(), FakeEngine()
    for step in range(31):
        now = step * STEP
        for request in traffic:
            if now - STEP < request.first_token_at <= now:
                engine.observe("ttft_seconds", request.ttft)
            if now - STEP < request.ends_at <= now and request.fate != "hung_up":
                engine.observe("tpot_seconds", request.tpot)
                engine.finished[request.fate] += 1
        engine.running = sum(request.at <= now < request.ends_at for request in traffic)
        windows.take(engine.reading(now))
    return windows


@given(requests, st.integers(0, 29), st.integers(1, 30))
def test_goodput_bounds_hold_the_joint_truth(traffic: list[Request], first: int, length: int) -> None:
    """Requests in flight over either edge of the window, failed ones and clients that hang up included."""
    start, end = first * STEP, min(30, first + length) * STEP
    finished = [r for r in traffic if start < r.ends_at <= end and r.fate != "hung_up"]
    figure = seen(watched(traffic), start, end).goodput_ratio
    if not finished:
        assert figure is None
        return
    truth = sum(request.is_good for request in finished) / len(finished)
    assert figure is not None
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low - 1e-9 <= truth <= figure.high + 1e-9
    assert figure.value is None or figure.value == pytest.approx(truth)
    assert figure.count == len(finished)


def test_goodput_is_exact_when_nobody_crosses_the_edges() -> None:
    """Of ten requests within the window two are slow to begin and none is slow to go on: 8 of 10."""
    traffic = [Request(50 + i, 0.3 if i > 1 else 4.0, 5, 0.02, "stop") for i in range(10)]
    figure = seen(watched(traffic), 40, 100).goodput_ratio
    assert figure == Figure(0.8, 0.8, 0.8, 10)


def test_a_stray_gauge_of_another_model_does_not_make_goodput_unknown() -> None:
    """An engine with two models gives its KV capacity without one: no requests belong to it."""
    windows, engine = Windows(), FakeEngine()
    stray = Sample("kv_capacity_tokens", "gauge", "0", "", 571_024)
    for at in (10, 20):
        reading = engine.reading(at)
        windows.take(replace(reading, samples=(*reading.samples, stray)))
        engine.finish(10)
    assert seen(windows, 10, 20).goodput_ratio == Figure(1.0, 1.0, 1.0, 10)


def test_goodput_without_the_count_of_failures_has_no_lower_bound() -> None:
    """What no page says is not zero failures."""
    windows, engine = Windows(), FakeEngine()
    for at in (10, 20):
        reading = engine.reading(at)
        windows.take(replace(reading, samples=tuple(s for s in reading.samples if "finished" not in s.signal)))
        engine.finish(10)
    signals = seen(windows, 10, 20)
    assert signals.goodput_ratio == Figure(None, 0.0, 1.0, 10)
    assert (signals.failed_ratio, signals.requests_finished) == (None, None)


def test_goodput_per_second_is_that_share_of_what_ended() -> None:
    assert per_second(Figure(None, 0.5, 0.75, 40), 10.0) == Figure(None, 2.0, 3.0, 40)
    assert per_second(None, 10.0) is None


def test_nothing_read_is_nothing_known() -> None:
    signals = seen(Windows(), 0, 60)
    numbers = [getattr(signals, name) for name in Signals.__dataclass_fields__ if name != "seconds"]
    nothing = ((), {}, {"itl_seconds>0.1": None, "itl_seconds>0.07": None})
    assert all(value is None or value in nothing for value in numbers)


def test_an_idle_minute_is_zero_tokens_and_no_latency() -> None:
    windows, engine = Windows(), FakeEngine()
    for at in range(0, 70, 10):
        windows.take(engine.reading(at))
    signals = seen(windows, 0, 60)
    assert (signals.generation_tokens, signals.requests_finished, signals.request_rate_per_second) == (0, 0, 0)
    assert (signals.ttft_seconds, signals.failed_ratio, signals.goodput_ratio) == (None, None, None)


def test_rates_are_over_the_time_that_pages_cover() -> None:
    """The page was away for the first half of the minute: 30 requests in the 30 s since."""
    windows, engine = Windows(), FakeEngine()
    windows.take(no_page(0))
    for at in (30, 40, 50, 60):
        windows.take(engine.reading(at))
        engine.finish(10)
    signals = seen(windows, 0, 60)
    assert (signals.seconds, signals.request_rate_per_second) == (30, 1.0)


def test_replicas_are_added_up_as_counts() -> None:
    windows = Windows()
    engines = [FakeEngine("a"), FakeEngine("b")]
    for at in (0, 10):
        for engine in engines:
            windows.take(engine.reading(at))
        engines[0].finish(90, ttft=0.2)
        engines[1].finish(10, ttft=7.0)
    total = seen(windows, 0, 10, "a", "b")
    assert total.requests_finished == 100
    assert total.ttft_seconds is not None
    assert total.ttft_seconds.p95 is not None
    assert (total.ttft_seconds.p95.low, total.ttft_seconds.p95.high) == (5.0, 10.0)


@pytest.mark.parametrize("roles", [{}, {"vllm-0": "prefill", "vllm-1": "decode"}])
def test_each_and_all_at_once_are_what_each_and_all_are_alone(roles: dict[str, str]) -> None:
    windows, names = Windows(), ("vllm-0", "vllm-1", "vllm-2")
    for number, name in enumerate(names):
        engine = FakeEngine(name, running=number)
        for step in range(5):
            engine.finish(3 + number, ttft=0.5 + number)
            windows.take(engine.reading(number + STEP * step))
    asked = replace(ASKED, roles=roles)
    each, every = read_each_and_all(windows, 0, 100, dict.fromkeys(names, asked), asked)
    assert each == {name: seen(windows, 0, 100, name, asked=asked) for name in names}
    assert every == seen(windows, 0, 100, *names, asked=asked)
    assert every.requests_finished == sum(one.requests_finished or 0.0 for one in each.values()) or roles


@pytest.mark.parametrize(("left_out", "failed_ratio"), [("", 0.0), ("requests_finished_total", None)])
def test_failures_of_a_prefill_side_that_counts_no_ends_are_unknown(left_out: str, failed_ratio: float | None) -> None:
    """Dynamo's prefill workers have no such counter: what fails there is not 0."""
    windows, halves = Windows(), (FakeEngine("p"), FakeEngine("d"))
    for at in (0, 10):
        for engine in halves:
            reading = engine.reading(at)
            if engine is halves[0]:
                reading = replace(reading, samples=tuple(s for s in reading.samples if s.signal != left_out))
            windows.take(reading)
            engine.finish(20)
    both = seen(windows, 0, 10, "p", "d", asked=replace(ASKED, roles={"p": "prefill", "d": "decode"}))
    assert both.failed_ratio == failed_ratio


def test_gpu_readings_do_not_stretch_the_time_of_the_engines() -> None:
    """The GPU was read for 100 s, the engine for 10: its 20 requests came at 2/s."""
    windows, engine = Windows(), FakeEngine()
    for at in range(0, 110, 10):
        joules = Sample("gpu_energy_joules_total", "counter", "", "", 500.0 * at)
        windows.take(Reading("gpu-0", "nvml", at, samples=(joules,)))
    windows.take(engine.reading(90))
    engine.finish(20)
    windows.take(engine.reading(100))
    total = seen(windows, 0, 100, "vllm-0", "gpu-0", asked=Question(TARGET, (), 0.01))
    assert total.request_rate_per_second == 2.0
    assert total.power_watts == pytest.approx(500)
    assert total.tokens_per_joule == pytest.approx(20 / 500)
    assert total.tokens_per_dollar == pytest.approx(20 / 0.01)
    powered = seen(windows, 0, 100, "vllm-0", "gpu-0", asked=Question(TARGET, (), 0.01, energy=Energy(72.0, 1.0)))
    assert powered.tokens_per_dollar == pytest.approx(20 / (0.01 + 500 * 72 / 3.6e6))
    assert powered.economics is not None
    assert powered.economics.dollars_per_hour == pytest.approx(3600 * 0.02)
    unknown = seen(windows, 0, 100, "vllm-0", asked=Question(TARGET, (), 0.01, energy=Energy(72.0, 1.0)))
    assert unknown.tokens_per_dollar is None


def test_gauges_are_added_over_engines_and_kv_usage_is_averaged() -> None:
    windows = Windows()
    engines = [FakeEngine(running=3, waiting=1, kv_usage=0.2), FakeEngine(engine="1", running=5, kv_usage=0.6)]
    for at in (0, 10):
        windows.take(page_of(engines, at))
    signals = seen(windows, 0, 10)
    assert signals.requests_running is not None
    assert signals.kv_usage_ratio is not None
    assert (signals.requests_running.last, signals.kv_usage_ratio.mean) == (8, pytest.approx(0.4))


def test_queue_time_has_no_mean_beside_failed_requests() -> None:
    """vLLM 0.32 observes minus its uptime for a request that fails while it waits; here it hides in the sum."""
    windows, engine = Windows(), FakeEngine()
    for at in (0, 10, 20):
        windows.take(engine.reading(at))
        engine.observe("queue_seconds", 0.02, 10)
        engine.finish(10, why="error" if at == 10 else "stop")
    well, poisoned = seen(windows, 0, 10).queue_seconds, seen(windows, 0, 20).queue_seconds
    assert well is not None
    assert poisoned is not None
    assert (well.mean, poisoned.mean) == (pytest.approx(0.02), None)
    assert poisoned.p50 is not None


def test_shares_over_a_threshold_on_and_off_an_edge() -> None:
    windows, engine = Windows(), FakeEngine()
    for at in (0, 10):
        windows.take(engine.reading(at))
        for seconds, times in ((0.02, 90), (0.08, 6), (0.3, 4)):
            engine.observe("itl_seconds", seconds, times)
    shares = seen(windows, 0, 10).over_threshold_ratio
    on, off = shares["itl_seconds>0.1"], shares["itl_seconds>0.07"]
    assert on is not None
    assert off is not None
    assert (on.low, on.value, on.high) == (0.04, 0.04, 0.04)
    assert (off.low, off.high) == (0.04, 0.10)


def test_gaps_between_tokens_have_no_sampling_interval() -> None:
    """All requests of a batch share a step, and its gap: 3,200 gaps may be 100 independent ones."""
    windows, engine = Windows(), FakeEngine()
    for at in (0, 10):
        windows.take(engine.reading(at))
        engine.finish(500)
        engine.observe("itl_seconds", 0.02, 3200)
    signals = seen(windows, 0, 10)
    assert signals.itl_seconds is not None
    assert signals.ttft_seconds is not None
    assert signals.itl_seconds.p50 is not None
    assert signals.ttft_seconds.p50 is not None
    assert (signals.itl_seconds.p50.ci_low, signals.itl_seconds.p50.ci_high) == (None, None)
    assert signals.ttft_seconds.p50.ci_low is not None


def test_canaries_that_say_nothing_about_the_service_are_left_out() -> None:
    windows = Windows()
    for at, outcome in enumerate(("ok", "server_error", "auth", "internal_error", "missed", "no_model"), 1):
        more = {"ttft_seconds": 0.2, "tpot_seconds": 0.02, "e2e_seconds": 1.0} if outcome == "ok" else {}
        windows.take_probe(ProbeResult("vllm-0", "chat", outcome, at, at, **more))  # type: ignore[arg-type]
    signals = seen(windows, 0, 60)
    assert (signals.canaries, signals.canaries_failed) == (2, 1)
    assert signals.canary_goodput_ratio is not None
    assert signals.canary_goodput_ratio.value == 0.5


@pytest.mark.parametrize(
    ("ttft", "tpot", "low", "high"),
    [(0.2, 0.02, 1, 1), (0.2, None, 0, 1), (None, 0.02, 0, 1), (3.0, None, 0, 0), (None, 0.5, 0, 0)],
)
def test_a_canary_whose_figures_are_not_known_widens_the_bounds(
    ttft: float | None, tpot: float | None, low: float, high: float
) -> None:
    windows = Windows()
    windows.take_probe(ProbeResult("vllm-0", "chat", "ok", 1, 1, ttft_seconds=ttft, tpot_seconds=tpot))
    figure = seen(windows, 0, 60).canary_goodput_ratio
    assert figure is not None
    assert (figure.low, figure.high) == (low, high)
    assert figure.value == (low if low == high else None)


def test_a_canary_that_this_machine_timed_badly_counts_and_its_times_do_not() -> None:
    """Of two answered ones, one has a TTFT that is off by more than it can bear."""
    windows = Windows()
    for at, ttft, flags in ((1, 0.2, ()), (2, 9.0, ("client_lag",))):
        windows.take_probe(
            ProbeResult("vllm-0", "chat", "ok", at, at, ttft_seconds=ttft, tpot_seconds=0.02, flags=flags)
        )
    signals = seen(windows, 0, 60)
    assert (signals.canaries, signals.canaries_failed) == (2, 0)
    assert signals.canary_ttft_seconds is not None
    assert (signals.canary_ttft_seconds.count, signals.canary_ttft_seconds.mean) == (1, 0.2)
    assert signals.canary_goodput_ratio is not None
    assert (signals.canary_goodput_ratio.low, signals.canary_goodput_ratio.high) == (0.5, 1.0)


def test_a_window_is_open_at_its_start_and_closed_at_its_end() -> None:
    """A reading at the edge belongs to the window that it ends: two neighbours count each request once."""
    windows, engine = Windows(), FakeEngine()
    for at in range(0, 50, 10):
        windows.take(engine.reading(at))
        engine.finish(1)
    parts = [seen(windows, start, start + 20).requests_finished for start in (0, 20)]
    assert parts == [2, 2]


def test_ranks_behind_one_address_are_told_beside_each_other() -> None:
    """250 gaps of 20 ms and 250 of 50 ms; a rank with 10 gaps has no mean, and neither has an engine on its own."""
    windows = Windows()
    ranks = [FakeEngine(engine=str(rank)) for rank in range(3)]
    alone = FakeEngine(target="vllm-1")
    for step in range(2):
        windows.take(page_of(ranks, 10.0 * step))
        windows.take(alone.reading(10.0 * step))
        for rank, gap, times in ((ranks[0], 0.02, 250), (ranks[1], 0.05, 250), (ranks[2], 0.9, 10), (alone, 0.9, 250)):
            rank.observe("itl_seconds", gap, times)
    means = {
        names: read_signals(windows, 0, 10, names, Question()).itl_mean_seconds_by_engine
        for names in (("vllm-0",), ("vllm-1",), ("vllm-0", "vllm-1"))
    }
    assert means[("vllm-0",)] == pytest.approx({"0": 0.02, "1": 0.05})
    assert means[("vllm-1",)] == means[("vllm-0", "vllm-1")] == {}


def test_two_models_behind_one_address_are_no_ranks() -> None:
    """A gateway's page with a small and a large model: each is alone. With two ranks each, both are told by name."""

    def means(*engines: FakeEngine) -> object:
        windows = Windows()
        for step in range(2):
            windows.take(page_of(engines, 10.0 * step))
            for engine in engines:
                engine.observe("itl_seconds", 0.01 if engine.model == "small" else 0.04, 250)
        return read_signals(windows, 0, 10, ("vllm-0",), Question()).itl_mean_seconds_by_engine

    assert means(FakeEngine(model="small"), FakeEngine(model="large")) == {}
    pairs = [FakeEngine(model=model, engine=engine) for model in ("small", "large") for engine in ("0", "1")]
    told = {f"{engine} of {model}": gap for model, gap in (("small", 0.01), ("large", 0.04)) for engine in ("0", "1")}
    assert means(*pairs) == pytest.approx(told)
