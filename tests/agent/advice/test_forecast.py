"""The forecast: quantiles of the largest minute ahead, by whichever predictor has been least wrong."""

from math import sin

import pytest

from agent.advice.demand import BIN_SECONDS
from agent.advice.forecast import DAY_BINS, Forecaster
from agent.simulator.seeds import stream


def fed(rates: list[float | None], horizon_bins: int = 7) -> Forecaster:
    forecaster = Forecaster(horizon_bins)
    for rate in rates:
        forecaster.take(rate)
    return forecaster


def test_nothing_seen_nothing_said() -> None:
    assert fed([]).forecast() is None
    assert fed([None, None]).forecast() is None


def test_quantiles_are_ordered_and_bounded() -> None:
    rng = stream(1, "rates")
    forecast = fed([max(0.0, rng.gauss(10, 3)) for _ in range(300)]).forecast()
    assert forecast is not None
    assert 0 <= forecast.q50 <= forecast.q75 <= forecast.q90 <= forecast.q97 <= 3 * 25


def test_nine_of_ten_largest_minutes_lie_below_the_90_percent_quantile() -> None:
    """Conformal: whatever the noise is, the share of misses is that of the level in the long run."""
    rng, horizon = stream(2, "rates"), 7
    rates = [max(0.0, 10 + 3 * sin(i / 40) + rng.gauss(0, 1.5)) for i in range(1500)]
    forecaster, kept, judged = Forecaster(horizon), 0, 0
    for i, rate in enumerate(rates[:-horizon]):
        forecaster.take(rate)
        forecast = forecaster.forecast()
        if i < 300 or forecast is None:
            continue
        came = max(sum(rates[end - 2 : end + 1]) / 3 for end in range(i + 1, i + 1 + horizon))
        judged, kept = judged + 1, kept + (came <= forecast.q90)
    assert 0.85 <= kept / judged <= 0.97


def test_zero_traffic_is_data_and_a_missing_bin_is_not() -> None:
    """Zero stands for itself; what was last known stands for two minutes, and then nothing is known."""
    quiet, blind = fed([8.0] * 60 + [0.0] * 60).forecast(), fed([8.0] * 60 + [None] * 6).forecast()
    assert quiet is not None
    assert blind is not None
    assert quiet.q50 == pytest.approx(0.0, abs=0.1)
    assert blind.q50 > 7.0
    assert fed([8.0] * 60 + [None] * 7).forecast() is None


def test_after_a_gap_the_first_value_speaks_for_now_and_a_day_ago_stays_a_day_ago() -> None:
    """Half an hour was missed: the last value is the new one, and the rates fill the time there was."""
    forecaster = fed([8.0] * 60 + [None] * 90 + [2.0])
    assert list(forecaster.rates) == [8.0] * 60 + [2.0] * 91
    forecast = forecaster.forecast()
    assert forecast is not None
    assert forecast.q50 < 3.0


def test_last_value_is_the_one_to_beat() -> None:
    """dynamo #14238: a level load leaves nothing to gain, and the last value says it."""
    forecast = fed([5.0] * 400).forecast()
    assert forecast is not None
    assert forecast.predictor == "last value"


def test_a_day_that_repeats_is_foreseen() -> None:
    """Load jumps up and down every quarter of an hour, every day alike: the day before tells of the jump to 12 while
    the last value still says 2.
    """
    day = ([2.0] * 45 + [12.0] * 45) * (DAY_BINS // 90)
    forecast = fed([*day, *day, *day[:43]]).forecast()
    assert forecast is not None
    assert forecast.predictor == "a day ago"
    assert forecast.q50 == pytest.approx(12.0, rel=0.2)


def test_never_below_zero() -> None:
    """dynamo #14493: a trend forecast went below zero."""
    forecast = fed([float(max(0, 60 - i)) for i in range(80)]).forecast()
    assert forecast is not None
    assert forecast.q50 >= 0.0
    assert forecast.horizon_seconds == 7 * BIN_SECONDS


def test_one_jump_that_stays_is_one_event() -> None:
    """Eight minutes at 8, then 40 for good: ten minutes later nobody expects another such jump (it once said 128)."""
    forecaster = Forecaster(horizon_bins=18)
    for rate in [8.0] * 24 + [40.0] * 30:
        forecaster.take(rate)
    forecast = forecaster.forecast()
    assert forecast is not None
    assert 40.0 <= forecast.q75 <= forecast.q90 <= 1.3 * 40.0
