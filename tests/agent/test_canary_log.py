"""The canary log and the living view: what people and scrapers see of canaries."""

import math
from dataclasses import replace

from fake_engine import FakeEngine

from agent.canary_log import EDGES, KEPT, MOST, CanaryLog
from agent.config import Config
from agent.living import LivingView
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.tick import Memory
from probes.clock import ScaledClock
from probes.sample import ProbeResult


def result(at: float, outcome: str = "ok", ttft: float | None = 0.2) -> ProbeResult:
    return ProbeResult(
        "vllm-0", "chat", outcome, at, at + 1, "m", ttft_seconds=ttft, tpot_seconds=0.02, itl_gaps_seconds=(0.02, 0.03),
        e2e_seconds=0.5,
    )  # fmt: skip


def test_failures_are_kept_longer_than_successes_and_the_newest_come_first() -> None:
    log = CanaryLog()
    log.take(result(0, "server_error"))
    for at in range(1, 200):
        log.take(result(at))
    recent = log.recent()
    assert len(recent) == KEPT + 1
    assert recent[0].at_seconds == 200
    assert recent[-1].outcome == "server_error"


def test_what_this_machine_timed_badly_is_listed_and_in_no_histogram() -> None:
    log = CanaryLog()
    log.take(replace(result(0), flags=("client_lag",)))
    assert [one.flags for one in log.recent()] == [("client_lag",)]
    assert log.totals() == []


def test_a_busy_target_pushes_no_other_out() -> None:
    log = CanaryLog()
    log.take(replace(result(0), target="quiet"))
    for at in range(200):
        log.take(result(at))
    assert sum(one.target == "quiet" for one in log.recent()) == 1
    assert len(log.recent()) == KEPT + 1


def test_however_many_targets_the_log_is_bounded() -> None:
    log = CanaryLog()
    for at in range(MOST + 500):
        log.take(replace(result(at), target=f"t{at % 400}"))
    assert len(log.recent()) == MOST
    log.forget("t0")
    assert all(one.target != "t0" for one in log.recent())


def test_71_a_restart_in_the_middle_is_told_with_the_failure() -> None:
    """The process began at 105 s: what failed around then says so; a success, and what failed long before, does not."""
    log = CanaryLog()
    for at, outcome in ((10, "server_error"), (100, "reset_midstream"), (101, "ok")):
        log.take(result(at, outcome))
    log.restarted("vllm-0", 105.0)
    assert {one.outcome: "restarted" in one.flags for one in log.recent()} == {
        "server_error": False, "reset_midstream": True, "ok": False
    }  # fmt: skip


def test_only_successes_have_latencies_and_each_gap_counts() -> None:
    log = CanaryLog()
    for at, outcome in enumerate(("ok", "ok", "stall_timeout")):
        log.take(result(at, outcome))
    counts = {total.histogram.signal: total.histogram.counts[-1] for total in log.totals()}
    assert counts == {"ttft_seconds": 2, "tpot_seconds": 2, "e2e_seconds": 2, "itl_seconds": 4}


def test_a_figure_that_the_stream_did_not_show_is_not_observed_as_zero() -> None:
    log = CanaryLog()
    log.take(result(0, ttft=None))
    assert "ttft_seconds" not in {total.histogram.signal for total in log.totals()}


def test_histograms_are_cumulative_and_end_with_infinity() -> None:
    log = CanaryLog()
    for ttft in (0.0005, 0.2, 99.0):
        log.take(result(0, ttft=ttft))
    (ttft_total,) = [total.histogram for total in log.totals() if total.histogram.signal == "ttft_seconds"]
    assert ttft_total.edges == EDGES["ttft_seconds"]
    assert ttft_total.edges[-1] == math.inf
    assert list(ttft_total.counts) == sorted(ttft_total.counts)
    assert (ttft_total.counts[0], ttft_total.counts[-1]) == (1, 3)


def test_the_living_view_has_every_target_of_the_plan_and_both_sources() -> None:
    memory, engine, clock = Memory(), FakeEngine(), ScaledClock(1.0, 1_800_000_000.0)
    now = clock.now_seconds()
    for at in (now - 20, now - 10):
        memory.windows.take(engine.reading(at))
        engine.finish(10)
    plan = Plan(targets={"vllm-0": TargetFacts("m", "aggregated", None), "away": TargetFacts("", "aggregated", None)})
    view = LivingView(Config(), plan, memory, clock)
    view.canaries.take(result(now - 5))
    signals = view.signals(60.0)
    assert set(signals.targets) == {"vllm-0", "away"}
    assert signals.total.requests_finished == 10
    assert signals.targets["away"].requests_finished is None
    assert {total.source for total in view.latency_totals()} == {"engine", "canary"}
