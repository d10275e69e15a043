"""What another number of replicas would feel like, and what of it may be promised."""

from dataclasses import replace

import pytest

from agent.advice.capacity import EngineCapacity, Objective, max_rate
from agent.advice.capacity_book import Learned
from agent.advice.carries import SPREAD_RATIO, Carried
from agent.advice.demand import Mix
from agent.advice.forecast import Forecast
from agent.advice.foreseen import Basis, Felt, felt
from agent.advice.rehearsal import EngineLimits, Load
from agent.advice.step_model import StepModel

STEPS = StepModel(
    22e-3, 90e-6, 20e-6, 152e-9, is_split_known=True, error_ratio=0.05, samples=60, covariance=((0.0,) * 4,) * 4
)
ENGINE = EngineCapacity(STEPS, EngineLimits(2048, 256, 300_000))
MIX = Mix(1500.0, 200.0, 0.0)
PROMISES = (Objective("ttft", 2.5, 0.95), Objective("tpot", 0.1, 0.95))
LIMIT = max_rate(ENGINE, Load(1500, 200, rate=1.0, spread_ratio=SPREAD_RATIO), PROMISES)
FORECAST = Forecast("last value", 140.0, 8.0, 10.0, 12.0, 14.0)
BASIS = Basis(
    (3, 4, 5),
    0,
    0.0,
    Learned(300_000.0),
    FORECAST,
    Carried(LIMIT.low, LIMIT.value, LIMIT.high, "tpot", 0.05, 1.0),
    MIX,
    PROMISES,
)


def test_a_promise_is_kept_only_at_the_pessimistic_end() -> None:
    """One replica carries 3.1 to 4.3 requests/s: the median of 8 breaks on one, twelve are surely kept by five."""
    assert [felt(ENGINE, BASIS, count).meets_slo for count in (1, 3, 5)] == [False, None, True]


def test_the_interval_reaches_from_the_usual_load_on_a_faster_engine_to_the_largest_on_a_slower_one() -> None:
    of = felt(ENGINE, BASIS, 4)
    alone = felt(ENGINE, replace(BASIS, forecast=replace(FORECAST, q90=FORECAST.q50)), 4)
    for wide, narrow in ((of.ttft_p95, alone.ttft_p95), (of.itl_p99, alone.itl_p99)):
        assert wide is not None
        assert narrow is not None
        assert wide.value == narrow.value
        assert wide.low == narrow.low
        assert wide.low <= wide.value < narrow.high < wide.high


def test_more_replicas_are_never_slower_at_the_pessimistic_end() -> None:
    highs = [of.ttft_p95.high for count in (4, 5, 6, 8) if (of := felt(ENGINE, BASIS, count)).ttft_p95 is not None]
    assert highs == sorted(highs, reverse=True)
    assert len(highs) == 4


def test_a_queue_without_end_has_no_time_to_first_token() -> None:
    of = felt(ENGINE, BASIS, 1)
    assert of.ttft_p95 is None
    assert of.meets_slo is False


def test_where_only_the_larger_load_overruns_the_interval_has_no_upper_end() -> None:
    """Two replicas: 8 requests/s are served, 18 never."""
    of = felt(ENGINE, replace(BASIS, forecast=replace(FORECAST, q90=18.0)), 2)
    assert of.ttft_p95 is not None
    assert of.ttft_p95.high is None
    assert of.meets_slo is not True


def test_while_a_queue_stands_only_a_count_that_works_it_off_keeps_a_promise() -> None:
    """2,700 requests wait, that is 15 a second for three minutes: five would keep the load alone, and do not."""
    jammed = replace(BASIS, waiting=2_700.0)
    assert [felt(ENGINE, jammed, count).meets_slo for count in (4, 5, 6, 9)] == [False, False, None, True]


def test_lost_replicas_carry_nothing() -> None:
    lost = replace(BASIS, lost=2)
    assert felt(ENGINE, lost, 6) == felt(ENGINE, BASIS, 4)
    assert felt(ENGINE, lost, 2) == Felt(None, None, meets_slo=False)


@pytest.mark.parametrize("correction", [0.5, 1.25])
def test_what_was_seen_to_be_wrong_of_the_model_is_put_right(correction: float) -> None:
    """A replica that carries half of what the model says is as one that is asked for double."""
    corrected = replace(BASIS, carried=replace(BASIS.carried, correction=correction))
    scaled = replace(BASIS, forecast=replace(FORECAST, q50=FORECAST.q50 / correction, q90=FORECAST.q90 / correction))
    assert felt(ENGINE, corrected, 6).ttft_p95 == felt(ENGINE, scaled, 6).ttft_p95
