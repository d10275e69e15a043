"""What the core costs: a page, a tick, a month. CPU seconds of one core; the tables are the result.

Ingestion and burn are one thing: what readings, counts and the standing of every SLO take. Alerts and advice come on
top, in the whole tick. Percentiles are computed when somebody asks, and cost nothing here.
"""

# ruff: noqa: T201 - a benchmark prints

import gc
import os
import resource
import time
from collections.abc import Callable

import pytest
from fake_engine import FakeEngine
from h200 import RECORDING, needs_h200

from agent.burn_windows import standard_pairs
from agent.model import SliName, Slo
from agent.plan import Plan
from agent.sli.count import TargetFacts, count_events
from agent.slo.status import slo_status
from agent.tick import Memory, tick
from probes.page import SystemPage
from probes.recording import read_entries

T0, DAY = 1_800_000_000.0, 86_400.0
MONTH, STEP = 30 * DAY, 15.0
TARGETS, SLIS = 8, ("ttft", "tpot", "e2e", "itl", "availability")
DAYS = float(os.environ.get("SLO_AGENT_BENCH_DAYS", "0.25"))


def cpu(act: Callable[[], object], times: int = 1) -> float:
    """CPU seconds of one act, over so many."""
    began = time.process_time()
    for _ in range(times):
        act()
    return (time.process_time() - began) / times


def fleet_plan() -> Plan:
    """20 SLOs over 8 targets."""
    slos = [_slo(sli, number) for sli in SLIS for number in range(4)]
    facts = TargetFacts("m", "aggregated", None)
    return Plan(tuple(slos), {f"v{number}": facts for number in range(TARGETS)}, scrape_interval_seconds=STEP)


def _slo(sli: SliName, number: int) -> Slo:  # type: ignore[valid-type]
    threshold = (60.0, 120.0, 300.0, 600.0)[number] if sli == "availability" else (1.0, 2.5, 5.0, 6.0)[number]
    return Slo(f"{sli}-{number}", "chat", sli, "engine", 0.99, MONTH, standard_pairs(MONTH), threshold)


class Fleet:
    """Eight busy engines, read every 15 s, each at its own moment."""

    def __init__(self) -> None:
        self.engines = [FakeEngine(f"v{number}", running=3) for number in range(TARGETS)]
        self.memory, self.plan, self.at = Memory(), fleet_plan(), T0
        self.taking = self.counting = self.judging = self.ticking = 0.0

    def go(self, steps: int) -> None:
        """Whole ticks."""
        for _ in range(steps):
            self._take_readings()
            self.ticking += cpu(lambda: tick(self.plan, self.memory, self.at + TARGETS))

    def go_without_advice(self, steps: int) -> None:
        """Of each tick only the counting, and the budget and burn of every SLO."""
        windows = self.memory.windows
        for _ in range(steps):
            self._take_readings()
            now = self.at + TARGETS
            ask = (self.plan.slos, self.plan.targets, windows, self.memory.pending, now)
            self.counting += cpu(lambda ask=ask: count_events(*ask))  # type: ignore[misc]
            self.judging += cpu(lambda now=now: [slo_status(s, windows.events[s.name], now) for s in self.plan.slos])  # type: ignore[misc]

    def _take_readings(self) -> None:
        self.at += STEP
        readings = []
        for number, engine in enumerate(self.engines):
            engine.finish(30)
            engine.finish(1, ttft=7.0, e2e=40.0)
            engine.observe("itl_seconds", 0.02, 300)
            readings.append(engine.reading(self.at + number))
        self.taking += cpu(lambda: [self.memory.windows.take(r) for r in readings])


@needs_h200
def test_cost_of_a_page() -> None:
    """A page of vLLM 0.24 as the recording has it."""
    bodies = [entry.body for entry in read_entries(RECORDING) if entry.source == "vllm"][:200]
    page = SystemPage("vllm")
    first = cpu(lambda: page.read(bodies[0], "vllm-0", T0))
    rest = iter(bodies[1:])
    cached = cpu(lambda: page.read(next(rest), "vllm-0", T0), len(bodies) - 1)
    print(f"\none page of {len(bodies[0]):,} bytes: {first * 1e3:.2f} ms at first, {cached * 1e3:.2f} ms from then on")
    assert cached < 0.02


def test_cost_of_a_tick_and_of_a_month() -> None:
    """The first hour fills the windows, and is not measured."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bare, whole, steps = Fleet(), Fleet(), int(DAYS * DAY / STEP)
    bare.go_without_advice(240)
    bare.taking = bare.counting = bare.judging = 0.0
    bare.go_without_advice(steps)
    gc.collect()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    whole.go(240)
    whole.taking = whole.ticking = 0.0
    whole.go(steps // 4)
    print(f"\n{len(bare.plan.slos)} SLOs, {TARGETS} targets, every {STEP:g} s, {DAYS:g} virtual days")
    print(f"{'':26}ms a step   s of one core in 30 days")
    rows = {
        f"taking {TARGETS} readings": bare.taking / steps,
        "counting for every SLO": bare.counting / steps,
        "budget and burn": bare.judging / steps,
        "ingestion and burn": (ingestion := (bare.taking + bare.counting + bare.judging) / steps),
        "with alerts and advice": (everything := (whole.taking + whole.ticking) / (steps // 4)),
    }
    for name, seconds in rows.items():
        print(f"  {name:24}{seconds * 1e3:9.3f}   {seconds * MONTH / STEP:9.0f}")
    print(f"  memory, without advice  {grown:9.0f} MB more than before")
    assert ingestion < everything
    assert everything < STEP / 300
    assert grown < 300


@pytest.mark.parametrize("gap_seconds", [600.0, 4 * DAY])
def test_cost_of_an_outage(gap_seconds: float) -> None:
    """After a gap everything is spread over it, in every SLO's buckets."""
    fleet = Fleet()
    fleet.go(10)
    fleet.at += gap_seconds
    fleet.taking = fleet.ticking = 0.0
    fleet.go(1)
    print(f"\nthe first tick after a gap of {gap_seconds:,.0f} s: {fleet.ticking * 1e3:.1f} ms")
    assert fleet.ticking < 10
