"""Counts in time buckets: windows add up, gaps are spread, nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model import Counts, Events
from agent.stats.time_buckets import TIERS, TimeBuckets

HOUR, DAY = 3_600.0, 86_400.0
T0 = 1_800_000_000.0


def steady(buckets: TimeBuckets, start: float, end: float, per_second: float, bad_ratio: float = 0.0) -> None:
    """One reading over the whole stretch, however long."""
    count = per_second * (end - start)
    buckets.add(Events(start, end, Counts(count * (1 - bad_ratio), count * bad_ratio)))


spans = st.lists(
    st.tuples(st.floats(0, 5000), st.floats(0, 900), st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)),
    min_size=1,
    max_size=25,
)


@given(spans)
def test_a_window_over_everything_holds_everything(added: list[tuple[float, float, int, int, int]]) -> None:
    buckets = TimeBuckets()
    for start, length, good, bad, undecided in added:
        buckets.add(Events(T0 + start, T0 + start + length, Counts(good, bad, undecided)))
    whole = buckets.since(T0 - 10)
    assert whole.good == pytest.approx(sum(row[2] for row in added), abs=1e-6)
    assert whole.bad == pytest.approx(sum(row[3] for row in added), abs=1e-6)
    assert whole.undecided == pytest.approx(sum(row[4] for row in added), abs=1e-6)
    assert whole == buckets.total()


@given(spans, st.lists(st.floats(0, 6000), min_size=2, max_size=2))
def test_windows_add_up_and_no_count_is_negative(
    added: list[tuple[float, float, int, int, int]], edges: list[float]
) -> None:
    """What came after the earlier edge is at least what came after the later one."""
    buckets = TimeBuckets()
    for start, length, good, bad, undecided in added:
        buckets.add(Events(T0 + start, T0 + start + length, Counts(good, bad, undecided)))
    early, late = (buckets.since(T0 + edge) for edge in sorted(edges))
    for name in ("good", "bad", "undecided"):
        assert getattr(early, name) >= getattr(late, name) - 1e-6
        assert getattr(late, name) >= 0


@given(st.floats(0, 599), st.floats(1, 600))
def test_steady_traffic_is_exact_at_any_edge(edge: float, length: float) -> None:
    """10 requests/s over 20 minutes: a window of w seconds to its end holds 10 w, wherever its edge falls."""
    buckets = TimeBuckets()
    for start in range(0, 1200, 10):
        steady(buckets, T0 + start, T0 + start + 10, 10.0, bad_ratio=0.25)
    counts = buckets.since(T0 + 1200 - min(edge + length, 1200))
    assert counts.total == pytest.approx(10 * min(edge + length, 1200), rel=1e-9, abs=1e-5)
    assert counts.bad == pytest.approx(counts.total / 4, rel=1e-9, abs=1e-5)


def test_a_gap_of_ten_minutes_is_spread_over_it_and_shows_no_spike_now() -> None:
    """slo.md G: +1000/+20 after 10 minutes. The last 5 minutes hold half of them, the last 10 s a sixtieth."""
    buckets = TimeBuckets()
    buckets.add(Events(T0, T0 + 600, Counts(1000, 20)))
    assert buckets.since(T0 + 300).bad == pytest.approx(10)
    assert buckets.since(T0 + 590).bad == pytest.approx(20 / 60)
    assert buckets.since(T0) == Counts(1000, 20)


def test_an_edge_within_a_bucket_takes_its_part_in_proportion() -> None:
    """A canary at 2 s into a bucket of 5 s: a window from its middle on holds half of it."""
    buckets = TimeBuckets()
    buckets.add(Events(T0 + 2, T0 + 2, Counts(bad=1)))
    assert buckets.since(T0 + 2.5).bad == pytest.approx(0.5)
    assert buckets.since(T0).bad == 1
    assert buckets.since(T0 + 5).bad == 0


def test_events_that_come_late_are_counted_where_they_belong() -> None:
    buckets = TimeBuckets()
    buckets.add(Events(T0 + 1000, T0 + 1000, Counts(good=5)))
    buckets.add(Events(T0 + 100, T0 + 110, Counts(bad=3)))
    assert buckets.since(T0 + 105).bad == pytest.approx(1.5)
    assert buckets.since(T0 + 500) == Counts(good=5)


def test_thirty_days_of_steady_traffic_are_right_in_every_window_of_the_policy() -> None:
    """1 request/s, 1 % bad, day after day: the rings of 5 s and 60 s wrap around many times."""
    buckets, end = TimeBuckets(), T0 + 33 * DAY
    for hour in range(33 * 24):
        steady(buckets, T0 + hour * HOUR, T0 + (hour + 1) * HOUR, 1.0, bad_ratio=0.01)
    for window in (300.0, 1800.0, HOUR, 2 * HOUR, 6 * HOUR, DAY, 3 * DAY, 30 * DAY):
        counts = buckets.since(end - window)
        assert counts.total == pytest.approx(window, rel=1e-9)
        assert counts.bad == pytest.approx(window / 100, rel=1e-9)


@pytest.mark.parametrize("width_and_size", TIERS, ids=[f"{width:g}s" for width, _ in TIERS])
def test_one_failure_is_seen_exactly_as_long_as_a_ring_reaches(width_and_size: tuple[float, int]) -> None:
    width, size = width_and_size
    buckets, reach = TimeBuckets(), width * (size - 3)
    buckets.add(Events(T0, T0, Counts(bad=1)))
    for step in range(1, 21):
        now = T0 + reach * step / 20
        buckets.add(Events(now, now, Counts(good=1)))
    assert buckets.since(T0 - width).bad == 1
    assert buckets.since(T0 + width).bad == 0
    assert buckets.since(T0 + reach - width) == Counts(good=1)


def test_a_long_silence_empties_the_windows_and_keeps_the_total() -> None:
    buckets = TimeBuckets()
    buckets.add(Events(T0, T0 + 10, Counts(bad=7)))
    assert buckets.since(T0 + 9 * DAY) == Counts()
    buckets.add(Events(T0 + 9 * DAY, T0 + 9 * DAY, Counts(good=1)))
    assert buckets.since(T0 + 9 * DAY - HOUR) == Counts(good=1)
    assert buckets.since(T0 - 10) == Counts(1, 7) == buckets.total()


def test_a_gap_longer_than_the_finest_ring_is_spread_as_well() -> None:
    buckets = TimeBuckets()
    buckets.add(Events(T0, T0 + 4 * DAY, Counts(good=4 * DAY)))
    for window in (300.0, HOUR, 6 * HOUR, 3 * DAY):
        assert buckets.since(T0 + 4 * DAY - window).good == pytest.approx(window, rel=1e-9)


def test_coverage_is_the_part_of_a_window_in_which_somebody_counted() -> None:
    buckets = TimeBuckets()
    assert buckets.coverage_ratio(HOUR, T0) == 0
    buckets.begin(T0)
    assert [buckets.coverage_ratio(HOUR, T0 + age) for age in (0, 900, 3600, 9999)] == [0, 0.25, 1, 1]


def test_nothing_counted_is_no_events_and_no_last_event() -> None:
    buckets = TimeBuckets()
    buckets.add(Events(T0, T0 + 10, Counts()))
    assert (buckets.since(T0 - DAY), buckets.last_event_at_seconds, buckets.began_at_seconds) == (Counts(), None, None)
