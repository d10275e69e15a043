"""slo.md K: excluded time counts for nothing, once, also afterwards; and the periods that budgets run over."""

from dataclasses import replace
from datetime import datetime

import pytest

from agent.model import BurnPair, Counts, Events, Slo
from agent.slo.exclusions import Exclusion, Weekly, excluded_spans
from agent.slo.period import budget_period
from agent.slo.status import slo_status
from agent.stats.time_buckets import TimeBuckets

T0, MINUTE, HOUR, DAY = 1_800_000_000.0, 60.0, 3_600.0, 86_400.0
FAST = BurnPair("page", "fast", 300.0, HOUR, 14.4)
SLO = Slo("s", "chat", "e2e", "engine", 0.999, 30 * DAY, (FAST,), 2.5)


def at(words: str) -> float:
    return datetime.fromisoformat(words).timestamp()


def outage(began: float, seconds: float, now: float = T0) -> TimeBuckets:
    """30 days of 100 requests/s up to now; all of one stretch were bad."""
    events, end = TimeBuckets(), began + seconds
    events.add(Events(now - 30 * DAY, began, Counts(100 * (began - now + 30 * DAY))))
    events.add(Events(began, end, Counts(bad=100 * seconds)))
    events.add(Events(end, now, Counts(100 * (now - end))))
    return events


def left(events: TimeBuckets, *exclusions: Exclusion, now: float = T0, slo: Slo = SLO) -> float:
    ratio = slo_status(slo, events, now, exclusions=exclusions).budget.remaining_ratio
    assert ratio is not None
    return ratio


def over(began: float, ended: float, *slos: str) -> Exclusion:
    return Exclusion(slos or ("*",), "a move", "ops", began, ended)


def test_an_excluded_hour_of_total_outage_spends_nothing() -> None:
    """It spends 138.9 % of 99.9 % otherwise; written before or after makes no difference: only the counts are kept."""
    events = outage(T0 - 10 * DAY, HOUR)
    assert left(events) == pytest.approx(1 - 1.389, abs=1e-3)
    assert left(events, over(T0 - 10 * DAY, T0 - 10 * DAY + HOUR)) == pytest.approx(1.0, abs=1e-6)


def test_excluded_time_is_not_violated_time() -> None:
    """A tenth of all is bad, all the time: of 30 days 3 are violated; of the half that counts a day and a half."""
    events = TimeBuckets()
    events.add(Events(T0 - 30 * DAY, T0, Counts(900_000, 100_000)))

    def violated(*exclusions: Exclusion) -> float | None:
        return slo_status(SLO, events, T0, exclusions=exclusions).budget.violated_minutes

    assert violated() == pytest.approx(3 * DAY / MINUTE)
    half = over(T0 - 40 * DAY, T0 - 15 * DAY), over(T0 - 20 * DAY, T0 - 15 * DAY)
    assert violated(*half) == pytest.approx(1.5 * DAY / MINUTE)
    assert violated(over(T0 - DAY, T0 + 9 * DAY)) == pytest.approx(2.9 * DAY / MINUTE)


def test_exclusions_that_overlap_count_once_and_good_events_go_as_well() -> None:
    began = T0 - 10 * DAY
    events = outage(began, HOUR)
    twice = over(began - HOUR, began + HOUR), over(began, began + 2 * HOUR)
    assert left(events, *twice) == pytest.approx(1.0, abs=1e-6)
    total = slo_status(SLO, events, T0, exclusions=twice).budget.counts.total
    assert total == pytest.approx(100 * (30 * DAY - 3 * HOUR), rel=1e-6)


def test_an_exclusion_of_another_slo_changes_nothing() -> None:
    events = outage(T0 - 10 * DAY, HOUR)
    assert left(events, over(T0 - 11 * DAY, T0, "other")) == left(events)


def test_an_alert_during_an_exclusion_is_suppressed_and_told() -> None:
    events = outage(T0 - 10 * MINUTE, 10 * MINUTE)
    assert slo_status(SLO, events, T0).burns[0].reason == "burning"
    status = slo_status(SLO, events, T0, exclusions=(over(T0 - HOUR, T0 + HOUR),))
    assert (status.burns[0].reason, status.burns[0].is_burning) == ("excluded", False)


def test_the_audit_tells_what_was_taken_out_why_and_by_whom() -> None:
    began = T0 - 10 * DAY
    (told,) = slo_status(SLO, outage(began, HOUR), T0, exclusions=(over(began, began + 2 * HOUR),)).excluded
    assert (told.reason, told.by, told.from_seconds, told.to_seconds) == ("a move", "ops", began, began + 2 * HOUR)
    assert told.counts.bad == pytest.approx(360_000, rel=1e-6)
    assert told.counts.good == pytest.approx(360_000, rel=1e-6)


def test_weekly_maintenance_keeps_to_the_clocks_of_its_zone() -> None:
    """Sundays 02:00 to 03:30 in Berlin: at 01:00 UTC, and at 00:00 UTC after the clocks changed on 29 March."""
    weekly = Exclusion(("*",), "update", weekly=Weekly((6,), 120, 5_400.0, "Europe/Berlin"))
    start, end = (at(day) for day in ("2026-03-21T00:00+00:00", "2026-04-06T00:00+00:00"))
    spans = excluded_spans((weekly,), "s", start, end)
    begins = [at(f"2026-{day}+00:00") for day in ("03-22T01:00", "03-29T01:00", "04-05T00:00")]
    assert spans == [(begin, begin + 5_400.0) for begin in begins]


def test_a_weekly_series_has_bounds_and_one_that_runs_now_is_seen() -> None:
    sunday = at("2026-03-22T02:00+00:00")
    weekly = Exclusion(
        ("*",), "update", weekly=Weekly((6,), 120, DAY), from_seconds=sunday + HOUR, to_seconds=sunday + 8 * DAY
    )
    assert excluded_spans((weekly,), "s", sunday - DAY, sunday + 30 * DAY) == [
        (sunday + HOUR, sunday + DAY),
        (sunday + 7 * DAY, sunday + 8 * DAY),
    ]
    assert excluded_spans((weekly,), "s", sunday + 7 * DAY + HOUR, sunday + 7 * DAY + 2 * HOUR) == [
        (sunday + 7 * DAY + HOUR, sunday + 8 * DAY)
    ]


def test_an_epoch_resets_the_budget_and_not_the_burn() -> None:
    events = outage(T0 - 10 * MINUTE, 10 * MINUTE)
    fresh = replace(SLO, epoch_seconds=T0)
    assert slo_status(fresh, events, T0 + 1).burns[0].long_rate == pytest.approx(
        slo_status(SLO, events, T0 + 1).burns[0].long_rate or 0.0
    )
    after = T0 + HOUR
    events.add(Events(T0, after, Counts(360_000)))
    assert left(events, now=after, slo=fresh) == pytest.approx(1.0)
    assert left(events, now=after) < 0.8


@pytest.mark.parametrize(
    ("calendar", "zone", "began", "days"),
    [
        ("day", "UTC", "2026-05-15T00:00+00:00", 1),
        ("week", "UTC", "2026-05-11T00:00+00:00", 7),
        ("month", "UTC", "2026-05-01T00:00+00:00", 31),
        ("quarter", "UTC", "2026-04-01T00:00+00:00", 91),
        ("month", "Asia/Tokyo", "2026-05-01T00:00+09:00", 31),
    ],
)
def test_calendar_periods(calendar: str, zone: str, began: str, days: int) -> None:
    slo = replace(SLO, calendar=calendar, time_zone=zone)
    now = at("2026-05-15T10:30+00:00")
    assert budget_period(slo, now) == (at(began), days * DAY)


def test_a_year_ends_and_a_month_with_a_change_of_clocks_is_an_hour_shorter() -> None:
    december, march = (at(day) for day in ("2026-12-31T12:00+00:00", "2026-03-15T12:00+00:00"))
    assert budget_period(replace(SLO, calendar="quarter"), december).length_seconds == 92 * DAY
    berlin = replace(SLO, calendar="month", time_zone="Europe/Berlin")
    assert budget_period(berlin, march).length_seconds == 31 * DAY - HOUR


def test_a_new_month_begins_with_a_whole_budget() -> None:
    first = at("2026-05-01T00:00+00:00")
    events = outage(first - HOUR, HOUR, now=first)
    events.add(Events(first, first + HOUR, Counts(360_000)))
    month = replace(SLO, calendar="month")
    assert left(events, now=first + HOUR, slo=month) == pytest.approx(1.0, abs=1e-3)
    assert left(events, now=first + HOUR) < 0
