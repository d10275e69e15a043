"""Pages for nothing: the figures of slo.md D, and a history that is resampled."""

from dataclasses import replace

import pytest

from agent.burn_windows import pairs_for
from agent.false_pages import (
    MONTHS,
    MOST_EVENTS,
    NEVER_PER_MONTH,
    block_minutes,
    false_pages_a_month,
    fewest_told_a_month,
    pages_a_month_like,
)
from agent.model import BurnPair, Slo

MONTH = 30 * 86_400.0
FAST = BurnPair("page", "fast", 300.0, 3_600.0, 14.4)


def promise(objective: float, **more: object) -> Slo:
    return Slo("s", "chat", "e2e", "engine", objective, MONTH, (FAST,), 2.5, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("objective", "an_hour", "ungated"),
    [(0.999, 6, 4.6), (0.999, 60, 40.8), (0.999, 600, 0.0), (0.99, 6, 24.0)],
)
def test_exactly_on_budget_by_chance(objective: float, an_hour: float, ungated: float) -> None:
    """slo.md D, fast pages a month: 4.6, 40.8, none, 24; with three bad ones needed 0.15 and 0.1."""
    bare = promise(objective, min_bad_events=1, calm_windows=0.0)
    assert false_pages_a_month(bare, an_hour) == pytest.approx(ungated, rel=0.25, abs=0.1)
    gated = false_pages_a_month(promise(objective), an_hour)
    assert gated is not None
    assert gated <= 0.5


def test_none_thrown_is_fewer_than_the_dice_could_show() -> None:
    """At 600 requests an hour 99 % is quiet by Chernoff's bound. Where dice of so many months show no page, at most
    three over those months are proven: the 95 % bound of a Poisson count of which none came.
    """
    assert false_pages_a_month(promise(0.99), 600) == 0.0
    assert false_pages_a_month(promise(0.95, min_bad_events=10), 2) == 0.0
    assert fewest_told_a_month(promise(0.99), 600) == NEVER_PER_MONTH
    assert fewest_told_a_month(promise(0.95, min_bad_events=10), 2) == pytest.approx(3 / MONTHS)
    assert fewest_told_a_month(promise(0.99), 30) == pytest.approx(3 / (MOST_EVENTS / (30 * 720)))


def test_no_page_pairs_and_no_traffic_have_no_answer() -> None:
    assert false_pages_a_month(replace(promise(0.99), pairs=()), 60) is None
    assert false_pages_a_month(promise(0.99), 0) is None


def test_every_preset_objective_is_quiet_at_a_few_thousand_requests_an_hour() -> None:
    for objective in (0.95, 0.99, 0.995, 0.999):
        slo = replace(promise(objective), pairs=pairs_for(objective, MONTH))
        found = false_pages_a_month(slo, 3_600)
        assert found is not None
        assert found < 0.5, objective


def test_months_like_a_history() -> None:
    """One outage of 10 minutes in a day: about 30 a month. A quiet day pages never; 2 minutes say nothing."""
    quiet, outage = [(0.0, 10.0)] * 1_430, [(10.0, 10.0)] * 10
    found = pages_a_month_like(promise(0.999), [*quiet[:700], *outage, *quiet[700:]])
    assert found is not None
    assert 20 < found < 45
    assert pages_a_month_like(promise(0.999), quiet) == 0
    assert pages_a_month_like(promise(0.999), quiet[:2]) is None
    assert (block_minutes(1_440), block_minutes(120), block_minutes(5)) == (60, 12, 1)
