"""What one increment of an engine adds to an SLO."""

from dataclasses import replace

import pytest
from fake_engine import FakeEngine, page_of

from agent.model import Counts, SliName, Slo
from agent.plan import Plan
from agent.sli.count import PendingBook, TargetFacts, count_events
from agent.windows import Windows

SECONDS = {"availability": 300.0, "ttft": 0.5, "tpot": 0.05, "e2e": 2.5, "itl": 0.05, "queue": 0.5}


def slo_of(sli: SliName, **more: object) -> Slo:
    return Slo(sli, "chat", sli, "engine", 0.99, 2_592_000.0, (), SECONDS[sli], **more)  # type: ignore[arg-type]


def counted(slo: Slo, engines: list[FakeEngine], facts: TargetFacts | None, *steps: object) -> Counts:
    """The counts after a first page, then a page after each step (a function that makes the engines work)."""
    windows, pending = Windows(), PendingBook()
    plan = Plan((slo,), {} if facts is None else {"vllm-0": facts})
    windows.take(page_of(engines, 10))
    for number, step in enumerate(steps, 2):
        step()  # type: ignore[operator]
        windows.take(page_of(engines, 10.0 * number))
    count_events(plan.slos, plan.targets, windows, pending)
    return windows.events[slo.name].total()


FACTS = TargetFacts("m", "aggregated", None)


def test_requests_count_by_how_they_finish() -> None:
    engine = FakeEngine()

    def work() -> None:
        engine.finish(90)
        engine.finish(6, why="error")
        engine.finish(4, why="abort")

    assert counted(slo_of("availability"), [engine], FACTS, work) == Counts(good=90, bad=10)


def test_answers_that_took_too_long_for_certain_are_not_available() -> None:
    """Beyond the edge at 300 s, in the histogram of the same requests."""
    engine = FakeEngine()

    def work() -> None:
        engine.finish(90)
        engine.finish(10, e2e=500.0)

    assert counted(slo_of("availability"), [engine], FACTS, work) == Counts(good=90, bad=10)


def test_late_ones_that_may_be_the_failed_ones_are_undecided() -> None:
    """Ten failed and ten were late: between ten and twenty requests are bad."""
    engine = FakeEngine()

    def work() -> None:
        engine.finish(80)
        engine.finish(10, e2e=500.0)
        engine.finish(10, why="error")

    found = counted(slo_of("availability"), [engine], FACTS, work)
    assert found == Counts(good=80, bad=10, undecided=10)


@pytest.mark.parametrize(
    ("sli", "good", "bad"),
    [
        ("ttft", {"ttft": 0.2}, {"ttft": 3.0}),
        ("tpot", {"tpot": 0.02}, {"tpot": 0.3}),
        ("e2e", {"e2e": 1.0}, {"e2e": 9.0}),
    ],
)  # fmt: skip
def test_requests_count_by_their_latency(sli: SliName, good: dict[str, float], bad: dict[str, float]) -> None:
    engine = FakeEngine()

    def work() -> None:
        engine.finish(70, **good)
        engine.finish(30, **bad)

    assert counted(slo_of(sli), [engine], FACTS, work) == Counts(good=70, bad=30)


def test_a_threshold_between_two_edges_leaves_events_undecided() -> None:
    engine = FakeEngine()
    slo = Slo("s", "chat", "ttft", "engine", 0.99, 2_592_000.0, (), 2.0)
    assert counted(slo, [engine], FACTS, lambda: engine.finish(5, ttft=1.5)) == Counts(undecided=5)


def test_all_engines_of_a_page_are_added_up() -> None:
    engines = [FakeEngine(), FakeEngine(engine="1")]

    def work() -> None:
        engines[0].finish(10)
        engines[1].finish(5, ttft=9)

    assert counted(slo_of("ttft"), engines, FACTS, work) == Counts(good=10, bad=5)


@pytest.mark.parametrize(
    ("slo", "facts", "counts"),
    [
        (slo_of("ttft"), TargetFacts("m", "aggregated", "chat"), 10),
        (slo_of("ttft"), TargetFacts("m", "aggregated", "other"), 0),
        (slo_of("ttft", model="m"), TargetFacts("", "aggregated", None), 10),
        (slo_of("ttft", model="n"), TargetFacts("", "aggregated", None), 0),
        (slo_of("ttft", role="decode"), TargetFacts("m", "decode", None), 10),
        (slo_of("ttft", role="decode"), TargetFacts("m", "prefill", None), 0),
        (slo_of("ttft"), None, 0),
    ],
    ids=["service", "other service", "model of the page", "other model", "role", "other role", "no longer watched"],
)
def test_whom_an_slo_concerns(slo: Slo, facts: TargetFacts | None, counts: int) -> None:
    engine = FakeEngine()
    assert counted(slo, [engine], facts, lambda: engine.finish(10)).total == counts


def test_a_hanging_engine_is_late_though_nothing_ends() -> None:
    """Eight requests wait and no first token comes; the threshold is half a second, the next page 10 s later."""
    engine = FakeEngine()

    def hang() -> None:
        engine.waiting = 8

    assert counted(slo_of("ttft"), [engine], FACTS, hang, hang, hang) == Counts(bad=8)


def test_token_gaps_have_no_pending_ones() -> None:
    engine = FakeEngine(running=5)
    assert counted(slo_of("itl"), [engine], FACTS, lambda: engine.observe("itl_seconds", 0.02, 100)) == Counts(100)


def test_an_slo_with_another_threshold_begins_anew_and_one_with_another_objective_does_not() -> None:
    """What was counted against 0.5 s says nothing about 2.5 s."""
    windows, pending, engine = Windows(), PendingBook(), FakeEngine()
    first = slo_of("ttft")
    totals = []
    for number, slo in enumerate((first, replace(first, objective_ratio=0.9), replace(first, threshold_seconds=2.5))):
        windows.take(engine.reading(10.0 + 20 * number))
        engine.finish(10, ttft=0.7)
        windows.take(engine.reading(20.0 + 20 * number))
        count_events((slo,), {"vllm-0": FACTS}, windows, pending)
        totals.append(windows.events[slo.name].total())
    assert totals == [Counts(bad=10), Counts(bad=20), Counts(good=10)]


def test_balances_of_targets_that_went_are_dropped() -> None:
    windows, pending, engine = Windows(), PendingBook(), FakeEngine()
    windows.take(engine.reading(10))
    count_events((slo_of("ttft"),), {"vllm-0": FACTS}, windows, pending)
    assert len(pending.balances) == 1
    count_events((slo_of("ttft"),), {}, windows, pending)
    assert pending.balances == {}
