"""Tables B, C, E and M of facts/slo.md, section 7: budgets, the weight of traffic, youth, replicas."""

from collections.abc import Iterator

from conformance_row import Row, near, same
from conformance_world import DAY, HOUR, MINUTE, MONTH, PAIRS, T0, Story
from fake_engine import FakeEngine

from agent.model import Slo
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.tick import Memory, tick

RATE = 1000.0
AVERAGE_OF_RATIOS = 138.9  # an hour of 720 all bad, whatever its traffic: 1/720 of 30 days over 0.1 %


def budgets() -> Iterator[Row]:
    """B: steady traffic, an outage at the end of 30 days."""
    cases = [
        ("5 min all bad", 5 * MINUTE, 1.0, {0.999: 11.574, 0.99: 1.157, 0.95: 0.2315}),
        ("10 min half bad", 10 * MINUTE, 0.5, {0.999: 11.574, 0.99: 1.157, 0.95: 0.2315}),
        ("60 min 10 % bad", HOUR, 0.1, {0.999: 13.889, 0.99: 1.389, 0.95: 0.2778}),
        ("60 min 2 % bad", HOUR, 0.02, {0.999: 2.778, 0.99: 0.278, 0.95: 0.0556}),
        ("24 h at a burn of 1", DAY, None, {0.999: 3.333, 0.99: 3.333, 0.95: 3.333}),
        ("24 h at a burn of 3", DAY, None, {0.999: 10.0, 0.99: 10.0, 0.95: 10.0}),
        ("50 min all bad: overspent, not clamped", 50 * MINUTE, 1.0, {0.999: 115.74}),
    ]
    for name, seconds, share, spent in cases:
        for objective, percent in spent.items():
            bad = share if share is not None else (1 - objective) * (3 if "3" in name else 1)
            story = Story(objective).serve(MONTH - seconds, RATE).serve(seconds, RATE, bad)
            yield near("B", f"{name}, {objective:.1%}: % spent", percent, story.spent_percent())


def traffic() -> Iterator[Row]:
    """C: an hour weighs what its traffic weighs. Beside it, what an average of 5-minute ratios says."""
    for day, night, spent in [(1000, 10, (275.0, 2.8)), (100, 10, (252.5, 25.3)), (20, 1, (264.6, 13.2))]:
        for is_night, percent in zip((False, True), spent, strict=True):
            story = Story()
            for hour in range(720):
                is_out = hour == (708 if is_night else 700)
                story.serve(HOUR, day if hour % 24 < 12 else night, 1.0 if is_out else 0.0)
            name = f"one hour all bad by {'night' if is_night else 'day'}, {day}/{night} per second: % spent"
            average = f"average of ratios: {AVERAGE_OF_RATIOS:g}"
            yield near("C", name, percent, story.spent_percent(), rel=0.02, other=average)
    quiet = Story().serve(MONTH - HOUR, 719.95 / 719 * RATE).serve(HOUR, 0.05 * RATE, 1.0)
    average = f"average of ratios: {AVERAGE_OF_RATIOS:g}"
    yield near("C", "an hour at 5 % of the mean traffic, all bad: % spent", 6.94, quiet.spent_percent(), other=average)
    busy = Story().serve(MONTH - HOUR, 717 / 719 * RATE).serve(HOUR, 3 * RATE, 0.014)
    yield near("C", "an hour at 3x traffic and a burn of 14: % spent", 5.83, busy.spent_percent())
    yield same("C", "... and the page pair 1h/5m, which cannot see that", "silent", _word(busy, "page/fast"))


def young() -> Iterator[Row]:
    """E: what was not watched is taken to be as busy, and good."""
    story = Story(began=T0 - 2 * MINUTE).serve(2 * MINUTE, RATE, 0.5)
    story.status()
    wanted = "page/fast"
    yield same("E", "2 min of life, half bad, 99.9 %: what fires", wanted, ", ".join(sorted(story.firing())) or "none")
    coverage = {burn.pair.long_seconds: burn.coverage_ratio for burn in story.status().burns}
    yield near("E", "... coverage of the window of 3 days", 120 / (3 * DAY), coverage[3 * DAY])
    budget = Story(began=T0 - HOUR).serve(HOUR, RATE, 0.01).status().budget
    yield near(
        "E", "1 h of life, 1 % bad, 99.9 %: % left, over its life", -900.0, _percent(budget.observed_remaining_ratio)
    )
    yield near("E", "... % left of the whole period", 98.611, _percent(budget.remaining_ratio))


def replicas() -> Iterator[Row]:
    """M: sums of counts, never a mean of ratios."""
    slo = Slo("s", "chat", "tpot", "engine", 0.99, MONTH, PAIRS, threshold_seconds=0.05)
    facts = TargetFacts("m", "aggregated", None)
    plan, memory = Plan((slo,), {"a": facts, "b": facts}), Memory()
    a, b = FakeEngine("a"), FakeEngine("b")
    for engine in (a, b):
        memory.windows.take(engine.reading(T0))
    a.observe("tpot_seconds", 0.02, 1000)
    b.observe("tpot_seconds", 0.2, 10)
    for engine in (a, b):
        memory.windows.take(engine.reading(T0 + 60))
    counts = tick(plan, memory, T0 + 60).snapshot.slos[0].burns[0].long_counts
    yield near("M", "1000 good on one replica, 10 bad on another: % bad", 0.990, 100 * counts.bad / counts.total)


def _word(story: Story, alert: str) -> str:
    return "fires" if alert in story.firing() else "silent"


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else 100 * ratio
