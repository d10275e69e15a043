"""Burn pairs: the standard ones where they can fire, and derived ones for loose objectives."""

import pytest

from agent.burn_windows import MOST_BAD_RATIO, pairs_for, standard_pairs

MONTH, HOUR = 30 * 86_400.0, 3_600.0


@pytest.mark.parametrize("objective", [0.999, 0.99, 0.98])
def test_tight_objectives_have_the_standard_pairs(objective: float) -> None:
    """At 98 % the page pair needs 28.8 % bad events."""
    assert pairs_for(objective, MONTH) == standard_pairs(MONTH)


def test_at_95_percent_a_page_needs_40_percent_and_not_72() -> None:
    """Factor 8 = 0.4 / 0.05 over 2 % * 720 h / 8 = 1.8 h; the slow pair needs 30 % and stays."""
    fast, slow, *tickets = pairs_for(0.95, MONTH)
    assert (fast.long_seconds, fast.short_seconds, fast.factor) == (1.8 * HOUR, 540, pytest.approx(8))
    assert [slow, *tickets] == list(standard_pairs(MONTH)[1:])


@pytest.mark.parametrize("objective", [0.9, 0.91, 0.925, 0.95, 0.97, 0.975, 0.99])
@pytest.mark.parametrize("days", [7, 28, 30, 90])
def test_every_pair_can_fire_and_spends_the_share_of_budget_it_always_did(objective: float, days: int) -> None:
    budget, period = 1 - objective, days * 86_400.0
    for pair, usual in zip(pairs_for(objective, period), standard_pairs(period), strict=True):
        assert pair.factor * budget <= MOST_BAD_RATIO + 1e-9 or pair.factor == 1
        assert pair.factor >= 1
        assert pair.factor * pair.long_seconds == pytest.approx(usual.factor * usual.long_seconds)
        assert pair.short_seconds * 12 == pytest.approx(pair.long_seconds)
        assert (pair.severity, pair.tier) == (usual.severity, usual.tier)
