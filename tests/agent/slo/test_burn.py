"""Burn rates and budgets: counts divided once, strictly compared, and silent where nothing is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model import BurnPair, Counts, Events, Silence, Slo
from agent.slo.burn import burn, burn_rate
from agent.slo.status import error_budget, slo_status
from agent.stats.time_buckets import TimeBuckets

T0, MINUTE, HOUR, DAY = 1_800_000_000.0, 60.0, 3_600.0, 86_400.0
FAST = BurnPair("page", "fast", 300.0, HOUR, 14.4)
TREND = BurnPair("ticket", "trend", 6 * HOUR, 3 * DAY, 1.0)


def promise(objective: float, pair: BurnPair = FAST, **more: object) -> Slo:
    return Slo("s", "chat", "e2e", "engine", objective, 30 * DAY, (pair,), 2.5, **more)  # type: ignore[arg-type]


def month_of(outage_seconds: float, share: float, per_second: float = 1000.0) -> TimeBuckets:
    """30 days of steady traffic; in the last `outage_seconds` of it, this share is bad."""
    buckets = TimeBuckets()
    good = per_second * (30 * DAY - outage_seconds)
    buckets.add(Events(T0 - 30 * DAY, T0 - outage_seconds, Counts(good)))
    count = per_second * outage_seconds
    buckets.add(Events(T0 - outage_seconds, T0, Counts(count * (1 - share), count * share)))
    return buckets


@pytest.mark.parametrize(
    ("outage_seconds", "share", "spent"),
    [
        (5 * MINUTE, 1.0, {0.999: 11.574, 0.99: 1.157, 0.95: 0.2315}),
        (10 * MINUTE, 0.5, {0.999: 11.574, 0.99: 1.157, 0.95: 0.2315}),
        (60 * MINUTE, 0.1, {0.999: 13.889, 0.99: 1.389, 0.95: 0.2778}),
        (60 * MINUTE, 0.02, {0.999: 2.778, 0.99: 0.278, 0.95: 0.0556}),
        (DAY, 0.001, {0.999: 3.333}),
        (DAY, 0.003, {0.999: 10.0}),
        (50 * MINUTE, 1.0, {0.999: 115.74}),
    ],
)
def test_budget_spent(outage_seconds: float, share: float, spent: dict[float, float]) -> None:
    """slo.md B, percent of the budget of 30 days; more than all of it is not clamped."""
    events = month_of(outage_seconds, share)
    for objective, percent in spent.items():
        left = error_budget(promise(objective), events, T0).remaining_ratio
        assert left is not None
        assert 100 * (1 - left) == pytest.approx(percent, rel=1e-3)


@pytest.mark.parametrize(
    ("day_rate", "night_rate", "at_night", "spent"),
    [(1000, 10, False, 275.0), (1000, 10, True, 2.8), (100, 10, False, 252.5), (100, 10, True, 25.3),
     (20, 1, False, 264.6), (20, 1, True, 13.2)],
)  # fmt: skip
def test_an_hour_of_outage_weighs_what_its_traffic_weighs(
    day_rate: float,
    night_rate: float,
    at_night: bool,  # noqa: FBT001  a column of the table
    spent: float,
) -> None:
    """slo.md C: 12 hours of day and of night; an average of ratios would say 138.9 % in every row."""
    buckets = TimeBuckets()
    for hour in range(720):
        is_day, rate = hour % 24 < 12, day_rate if hour % 24 < 12 else night_rate
        is_out = hour == (708 if at_night else 700)
        assert not is_out or is_day != at_night
        count = rate * HOUR
        start = T0 - 30 * DAY + hour * HOUR
        buckets.add(Events(start, start + HOUR, Counts(bad=count) if is_out else Counts(good=count)))
    left = error_budget(promise(0.999), buckets, T0).remaining_ratio
    assert left is not None
    assert 100 * (1 - left) == pytest.approx(spent, rel=0.02)


def test_a_young_agent_has_spent_what_it_saw_and_no_more() -> None:
    """slo.md E: one hour of 30 days was watched, 1 % of it was bad: ten times what 99.9 % allows for that hour, and
    10/720 of the period's budget, if the other 719 hours are as busy and good.
    """
    events = TimeBuckets()
    events.add(Events(T0 - HOUR, T0, Counts(9_900, 100)))
    budget = error_budget(promise(0.999), events, T0)
    assert budget.coverage_ratio == pytest.approx(1 / 720)
    assert budget.observed_remaining_ratio == pytest.approx(1 - 10)
    assert budget.remaining_ratio == pytest.approx(1 - 10 / 720)


@pytest.mark.parametrize("objective", [0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.99, 0.999, 0.9999])
def test_a_burn_of_exactly_the_factor_does_not_fire(objective: float) -> None:
    """1 - 0.9 is a little less than 0.1 in floats; a service exactly at its promise must not get tickets for that."""
    events, bad = TimeBuckets(), round((1 - objective) * 1e7)
    events.add(Events(T0 - 4 * DAY, T0, Counts(1e7 - bad, bad)))
    at = burn(promise(objective, TREND), TREND, events, T0)
    assert (at.reason, at.long_rate) == ("within_budget", pytest.approx(1.0))
    events.add(Events(T0 - 4 * DAY, T0, Counts(bad=bad / 100)))
    assert burn(promise(objective, TREND), TREND, events, T0).is_burning


def test_pages_only_when_both_windows_burn() -> None:
    """A short window alone is a blip; a long window alone is already over."""
    blip, over, lasting = month_of(60, 1.0), month_of(HOUR, 1.0), month_of(HOUR, 1.0)
    over.add(Events(T0, T0 + 600, Counts(good=600_000)))
    low = promise(0.99)
    assert burn(low, FAST, blip, T0).reason == "within_budget"
    assert burn(low, FAST, over, T0 + 600).reason == "within_budget"
    assert burn(low, FAST, lasting, T0).reason == "burning"


@pytest.mark.parametrize("bad", [1, 2, 3])
def test_low_traffic_needs_three_bad_events(bad: int) -> None:
    """slo.md D: at 60 canaries an hour and 99.9 %, one failure burns at 16.7 times; it takes three to page."""
    events = TimeBuckets()
    for minute in range(60):
        is_bad = minute >= 60 - bad
        at = T0 - HOUR + MINUTE * minute + 30
        events.add(Events(at, at, Counts(bad=1) if is_bad else Counts(good=1)))
    found = burn(promise(0.999), FAST, events, T0)
    assert found.long_rate is not None
    assert found.long_rate > FAST.factor
    assert found.reason == ("burning" if bad >= 3 else "too_few_bad_events")


@pytest.mark.parametrize(
    ("pair", "fewest"),
    [(FAST, {0.999: 70, 0.99: 7, 0.95: 2}), (TREND, {0.999: 1000, 0.99: 100, 0.95: 20})],
    ids=["1h", "3d"],
)
def test_one_failure_burns_too_fast_below_so_many_events(pair: BurnPair, fewest: dict[float, int]) -> None:
    """slo.md D: fewer than 1 / (F b) events in the long window."""
    for objective, count in fewest.items():
        rates = [burn_rate(promise(objective), Counts(total - 1, 1)) for total in (count - 1, count + 1)]
        assert rates[0] is not None
        assert rates[1] is not None
        assert rates[0] > pair.factor > rates[1], objective


def test_no_events_are_no_rate_no_alert_and_no_budget() -> None:
    events = TimeBuckets()
    status = slo_status(promise(0.99), events, T0)
    assert (status.burns[0].reason, status.burns[0].long_rate) == ("no_events", None)
    assert (status.budget.remaining_ratio, status.state) == (None, "no_traffic")
    assert slo_status(promise(0.99), events, T0, no_data=Silence("blind", "")).state == "no_data"


def test_one_idle_hour_does_not_change_the_budget() -> None:
    events = month_of(HOUR, 1.0, per_second=1.0)
    before = error_budget(promise(0.99), events, T0)
    assert error_budget(promise(0.99), events, T0 + HOUR).counts.bad == before.counts.bad
    assert slo_status(promise(0.99), events, T0 + HOUR).state == "no_traffic"


def test_two_minutes_of_evidence_fire_the_fast_page_and_nothing_slower() -> None:
    """slo.md E: two minutes old, half of all bad, 99.9 %. Unseen time counts as good, so the fast page is due after
    103.68 s, as for an agent that had watched for days, and the slower pairs wait.
    """
    events = TimeBuckets()
    events.begin(T0)
    events.add(Events(T0, T0 + 120, Counts(60_000, 60_000)))
    slo = promise(0.999)
    page, ticket = burn(slo, FAST, events, T0 + 120), burn(slo, TREND, events, T0 + 120)
    assert page.reason == "burning"
    assert page.long_rate == pytest.approx(500 * 120 / HOUR)
    assert burn(slo, BurnPair("page", "slow", 1_800, 6 * HOUR, 6.0), events, T0 + 120).reason == "within_budget"
    assert ticket.long_rate == pytest.approx(500 * 120 / (3 * DAY))
    assert ticket.reason == "within_budget"


def test_an_slo_whose_period_no_pair_fits_still_has_a_state() -> None:
    slo = Slo("s", "chat", "e2e", "engine", 0.99, HOUR, (), 2.5)
    events = TimeBuckets()
    events.add(Events(T0 - 60, T0, Counts(good=100)))
    assert slo_status(slo, events, T0).state == "ok"


@pytest.mark.parametrize(("policy", "rate"), [("bad", 30.0), ("good", 10.0)])
def test_undecided_events_burn_where_the_slo_counts_them_as_bad(policy: str, rate: float) -> None:
    assert burn_rate(promise(0.99, undecided=policy), Counts(70, 10, 20)) == pytest.approx(rate)


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000), st.floats(0.01, 0.9999))
def test_a_rate_is_never_negative_and_never_beyond_all_events_bad(g: int, b: int, u: int, objective: float) -> None:
    rate = burn_rate(promise(objective), Counts(g, b, u))
    assert rate is None if g + b + u == 0 else rate is not None and 0 <= rate <= 1 / (1 - objective) + 1e-6


def test_replicas_are_merged_as_counts() -> None:
    """slo.md M: 0 of 1000 and 10 of 10 are 10 of 1010, not the mean of 0 % and 100 %."""
    rate = burn_rate(promise(0.99), Counts(1000) + Counts(bad=10))
    assert rate == pytest.approx(10 / 1010 / 0.01)
