"""Pages that mislead: several engines, processes and clocks behind one address. Nothing is made up or doubled."""

import math

import pytest
from fake_engine import FakeEngine

from agent.signals.read import Question, read_signals
from agent.windows import EngineKey, Windows
from probes.sample import HistogramSample, Reading, Sample

T0 = 1_800_000_000.0


def counters(at: float, start: float | None = None, **engines: float) -> Reading:
    """A page with one counter per engine."""
    samples = tuple(
        Sample("generation_tokens_total", "counter", name[1:], "m", value) for name, value in engines.items()
    )
    return Reading("vllm-0", "vllm", T0 + at, samples=samples, process_start_seconds=start)


def tokens(windows: Windows, until: float = 10_000.0) -> float | None:
    return read_signals(windows, T0 - 1, T0 + until, ["vllm-0"], Question()).generation_tokens


def test_an_engine_that_began_anew_does_not_recount_its_neighbour() -> None:
    """Engine 0 falls from 1003 to 2: 2 are new. Engine 1 went on from 1,000,003 to 1,000,004: one is."""
    windows = Windows()
    windows.take(counters(0, e0=1_003, e1=1_000_003))
    windows.take(counters(10, e0=2, e1=1_000_004))
    assert tokens(windows) == 3


def test_two_replicas_behind_one_address_do_not_count_their_lives() -> None:
    """They answer in turn. Only the one that began last is followed; the other's pages are told, and not counted."""
    windows = Windows()
    for turn in range(10):
        older, newer = counters(20 * turn, T0 - 5_000, e0=9_000_000 + turn), counters(20 * turn + 10, T0 - 50, e0=turn)
        windows.take(older)
        windows.take(newer)
    assert windows.targets["vllm-0"].last_attempt.outcome == "ok"
    windows.take(counters(200, T0 - 5_000, e0=9_000_100))
    assert windows.targets["vllm-0"].last_attempt.outcome == "other_process"
    assert "load balancer" in windows.targets["vllm-0"].last_attempt.detail
    counted = tokens(windows)
    assert counted is not None
    assert counted <= 10


def test_a_clock_that_is_set_back_blinds_nobody() -> None:
    """An hour back: the target begins anew with the next page, and counts from the one after it."""
    windows = Windows()
    windows.take(counters(0, T0 - 50, e0=100))
    windows.take(counters(10, T0 - 50, e0=110))
    windows.take(counters(10 - 3_600, T0 - 50, e0=120))
    windows.take(counters(20 - 3_600, T0 - 50, e0=125))
    log = windows.targets["vllm-0"]
    assert log.last_ok is not None
    assert log.last_ok.at_seconds == T0 + 20 - 3_600
    assert read_signals(windows, T0 - 3_601, T0 - 3_500, ["vllm-0"], Question()).generation_tokens == 5


def test_a_page_that_comes_late_is_no_clock_set_back() -> None:
    windows = Windows()
    windows.take(counters(10, e0=110))
    windows.take(counters(5, e0=105))
    assert windows.targets["vllm-0"].last_attempt.at_seconds == T0 + 10


def test_an_engine_that_was_missing_for_a_while_is_spread_over_the_while() -> None:
    """Engine 1 is not on the pages of ten minutes; what it did then did not happen in the last ten seconds."""
    windows = Windows()
    windows.take(counters(0, e0=0, e1=0))
    windows.take(counters(10, e0=10, e1=10))
    for step in range(2, 61):
        windows.take(counters(10 * step, e0=10 * step))
    windows.take(counters(610, e0=610, e1=610))
    last = windows.increments[EngineKey("vllm-0", "vllm", "1", "m")][-1]
    assert (last.from_seconds, last.to_seconds) == (T0 + 10, T0 + 610)
    assert last.counters["generation_tokens_total", ""] == 600


def test_a_page_that_was_not_read_at_one_instant_loses_nothing_in_the_end() -> None:
    """The middle page has one bucket too few: its figures are left out, and the next page brings all of them."""
    windows = Windows()
    for at, counts in ((0, (10.0, 10.0)), (10, (8.0, 20.0)), (20, (25.0, 30.0))):
        histogram = HistogramSample("ttft_seconds", "0", "m", (1.0, math.inf), counts, None)
        windows.take(Reading("vllm-0", "vllm", T0 + at, histograms=(histogram,)))
    signals = read_signals(windows, T0 - 1, T0 + 30, ["vllm-0"], Question())
    assert signals.ttft_seconds is not None
    assert signals.ttft_seconds.count == 20


def test_engines_that_follow_each_other_cover_the_time_of_both() -> None:
    """A roll-out: one target for 100 s, then another for 100 s, each at 1 request/s. Together 1/s, not 2."""
    windows = Windows()
    for name, start in (("a", 0), ("b", 100)):
        engine = FakeEngine(name, running=1)
        for step in range(11):
            windows.take(engine.reading(T0 + start + 10 * step))
            engine.finish(10)
    signals = read_signals(windows, T0 - 1, T0 + 300, ["a", "b"], Question())
    assert signals.request_rate_per_second == pytest.approx(1.0)
