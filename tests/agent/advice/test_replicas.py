"""How many replicas there should be: the band, the bad-data table of facts/recommend.md 5f, complaints of section 3."""

import pytest

from agent.advice.carries import Carried
from agent.advice.forecast import Forecast
from agent.advice.replicas import Group, Steadiness, Wish, wished

LEAD = 120.0
HELD = 1_000.0  # longer than any hold


def foreseen(q50: float, q75: float | None = None, q90: float | None = None) -> Forecast:
    q75 = q50 if q75 is None else q75
    q90 = q75 if q90 is None else q90
    return Forecast("last value", 140.0, q50, q75, q90, 1.2 * q90)


def carries(low: float = 1.0, value: float = 1.1, high: float = 1.2) -> Carried:
    return Carried(low, value, high, "ttft", 0.02, 1.0)


def ask(
    group: Group,
    forecast: Forecast | None,
    carried: Carried | None = None,
    *,
    waiting: float = 0.0,
    bounds: tuple[int, int] = (1, 64),
    steadiness: Steadiness | None = None,
    for_seconds: float = HELD,
) -> Wish:
    """The wish after the same has been seen every 10 s for so long."""
    memory = steadiness or Steadiness()
    carried = carries() if carried is None else carried
    at, wish = 0.0, wished(group, forecast, carried, waiting, memory, bounds, LEAD, 0.0)
    while at < for_seconds:
        at += 10.0
        wish = wished(group, forecast, carried, waiting, memory, bounds, LEAD, at)
    return wish


def test_growth_follows_the_pessimistic_end_of_both_predictions_together() -> None:
    """Median 3.8 requests/s, 75 % quantile 20 % above, 1.1 a replica that may be 1.0: 3.8 / 1.1 x (1 + hypot(0.2, 0.1))
    is 4.2, so five; the middle of both would say four.
    """
    wish = ask(Group(3), foreseen(3.8, 1.2 * 3.8), for_seconds=0.0)
    assert (wish.count, wish.reason) == (5, "grow")


def test_a_standing_queue_asks_for_more_than_the_arrivals() -> None:
    """360 waiting requests are worked off within 180 s by two replicas more."""
    assert ask(Group(3), foreseen(3.0), waiting=360.0, for_seconds=0.0).count == 5


def test_growth_is_as_large_as_needed_up_to_double_or_four_more() -> None:
    """llm-d #1248 grows too slowly, one at a time."""
    assert ask(Group(3), foreseen(6.0), for_seconds=0.0).count == 6
    assert ask(Group(3), foreseen(60.0), for_seconds=0.0).count == 7
    assert ask(Group(10), foreseen(60.0), for_seconds=0.0).count == 20


def test_fewer_only_after_they_were_enough_for_the_whole_hold() -> None:
    """A 90 % quantile of 2.5 leaves room for one of four to go, after 240 s and not before."""
    before, after = (ask(Group(4), foreseen(2.0, 2.2, 2.5), for_seconds=seconds) for seconds in (230.0, 260.0))
    assert (before.count, before.reason) == (4, "holding")
    assert (after.count, after.reason) == (3, "shrink")


def test_shrinking_goes_in_steps_of_a_quarter() -> None:
    assert ask(Group(12), foreseen(2.0)).count == 9


def test_within_the_band_nothing_moves() -> None:
    """The median alone would do with three, the 90 % quantile wants four: four stay (dynamo PR #9294)."""
    wish = ask(Group(4), foreseen(2.5, 3.1, 3.9))
    assert (wish.count, wish.low, wish.reason) == (4, 3, "within_band")


def test_reversals_double_the_hold() -> None:
    """llm-d #1352: raw targets flap. After four reversals in an hour fewer must be enough for 960 s, not 240 s."""
    memory = Steadiness()
    for at, count in enumerate((3, 4, 3, 4, 3, 4)):
        memory.see(count, float(at))
    assert memory.hold_seconds(LEAD, 10.0) == 960.0
    assert memory.hold_seconds(LEAD, 10.0 + 3600) == 240.0


@pytest.mark.parametrize(
    ("row", "group", "forecast", "carried", "count", "reason"),
    [
        ("readings are missing: never down", Group(6, quality_ratio=0.9), foreseen(1.0), carries(), 6, "bad_data"),
        ("nothing is read at all", Group(6, quality_ratio=0.0), foreseen(1.0), carries(), 6, "bad_data"),
        ("no forecast yet", Group(6), None, carries(), 6, "no_model"),
        ("readings are missing, and more is needed", Group(2, quality_ratio=0.5), foreseen(4.0), carries(), 4, "grow"),
        ("zero traffic, all of it read: one step down", Group(6), foreseen(0.0), carries(), 5, "no_traffic"),
        ("zero traffic, the last one stays", Group(1), foreseen(0.0), carries(), 1, "within_band"),
        ("one is loading: none is taken away", Group(5, pending=1), foreseen(1.0), carries(), 6, "pending"),
        ("those on their way count", Group(2, pending=2), foreseen(4.0), carries(), 4, "within_band"),
        ("one that will not come is made up for", Group(3, lost=1), foreseen(4.0), carries(), 5, "grow"),
        ("no count keeps the promise: no more of them", Group(3), foreseen(9.0), carries(0.0), 3, "cannot_be_met"),
    ],
)  # fmt: skip
def test_bad_data_and_pending(
    row: str, group: Group, forecast: Forecast | None, carried: Carried, count: int, reason: str
) -> None:
    """facts/recommend.md 5f; dynamo #6985 (no traffic never shrinks), #14251 (pending freezes), PR #11624; sie #293."""
    wish = ask(group, forecast, carried)
    assert (wish.count, wish.reason) == (count, reason), row


def test_without_a_model_nothing_changes() -> None:
    wish = wished(Group(4), foreseen(9.0), None, 0.0, Steadiness(), (1, 64), LEAD, 0.0)
    assert (wish.count, wish.reason) == (4, "no_model")


def test_one_missing_minute_begins_the_hold_anew() -> None:
    memory = Steadiness()
    for at in range(0, 230, 10):
        wished(Group(4), foreseen(1.0), carries(), 0.0, memory, (1, 64), LEAD, float(at))
    wished(Group(4, quality_ratio=0.5), foreseen(1.0), carries(), 0.0, memory, (1, 64), LEAD, 230.0)
    wish = wished(Group(4), foreseen(1.0), carries(), 0.0, memory, (1, 64), LEAD, 300.0)
    assert (wish.count, wish.reason) == (4, "holding")


def test_a_pressed_budget_reads_the_forecast_at_a_higher_quantile() -> None:
    forecast, carried = Forecast("last value", 140.0, 3.8, 3.8, 5.0, 5.0), carries()
    calm = wished(Group(4), forecast, carried, 0.0, Steadiness(), (1, 64), LEAD, 0.0)
    pressed = wished(Group(4), forecast, carried, 0.0, Steadiness(), (1, 64), LEAD, 0.0, is_pressed=True)
    assert (calm.count, pressed.count) == (4, 5)


def test_bounds_hold() -> None:
    assert ask(Group(4), foreseen(99.0), bounds=(1, 6), for_seconds=0.0).count == 6
    assert ask(Group(2), foreseen(0.0), bounds=(2, 6)).count == 2
    assert ask(Group(1), foreseen(0.0), bounds=(0, 6)).count == 0
