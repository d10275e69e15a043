"""Limits and verdicts of one engine: monotone, ordered, and only promised at the pessimistic end."""

from dataclasses import replace

import pytest

from agent.advice.capacity import EngineCapacity, Objective, max_concurrency, max_rate, predict
from agent.advice.rehearsal import EngineLimits, Load
from agent.advice.step_model import StepModel

STEPS = StepModel(
    4.66e-3, 25.1e-6, 0.0, 30.6e-9, is_split_known=False, error_ratio=0.02, samples=60, covariance=((0.0,) * 4,) * 4
)
ENGINE = EngineCapacity(STEPS, EngineLimits(8192, 256, 571_024), front_end_seconds=0.018)
LONG = Load(8192, 1024)
ITL = Objective("itl", 0.1, 0.99)
TTFT = Objective("ttft", 2.0, 0.95)


def test_without_objectives_the_kv_cache_limits() -> None:
    """571,024 tokens hold 65 requests of 8192 + 512 on average."""
    limit = max_concurrency(ENGINE, LONG)
    assert (limit.value, limit.binding) == (65, "kv")
    assert max_rate(ENGINE, LONG).binding == "kv"


def test_the_sequence_limit_binds_where_it_comes_first() -> None:
    small = replace(ENGINE, limits=replace(ENGINE.limits, max_sequences=20))
    assert (max_concurrency(small, LONG).value, max_concurrency(small, LONG).binding) == (20, "seqs")


def test_the_measured_cliff_lies_between_16_and_32_users() -> None:
    """The H200's own coefficients: p99 over 100 ms at 32 concurrent 8k/1k requests, under it at 8."""
    limit = max_concurrency(ENGINE, LONG, [ITL])
    assert limit.binding == "itl"
    assert 8 <= limit.low <= limit.value < 32
    assert predict(ENGINE, replace(LONG, concurrency=32), [ITL]).meets_slo is False
    assert predict(ENGINE, replace(LONG, concurrency=4), [ITL]).meets_slo is True


def test_an_objective_more_never_allows_a_higher_rate() -> None:
    free, itl, both = (max_rate(ENGINE, LONG, objectives).value for objectives in ([], [ITL], [ITL, TTFT]))
    assert free > itl >= both > 0


def test_what_no_load_keeps_has_the_limit_zero() -> None:
    """A prompt of 8192 tokens takes 230 ms alone: TTFT below 100 ms cannot be."""
    impossible = Objective("ttft", 0.1, 0.95)
    assert max_rate(ENGINE, LONG, [impossible]).value == 0
    assert max_concurrency(ENGINE, LONG, [impossible]).binding == "ttft"


def test_at_the_limit_only_the_value_keeps_it_not_the_pessimistic_end() -> None:
    limit = max_rate(ENGINE, LONG, [ITL])
    assert limit.low < limit.value < limit.high
    at_value = predict(ENGINE, replace(LONG, rate=limit.value), [ITL])
    assert at_value.meets_slo is not True
    assert predict(ENGINE, replace(LONG, rate=0.5 * limit.low), [ITL]).meets_slo is True


def test_every_figure_lies_within_its_interval() -> None:
    prediction = predict(ENGINE, replace(LONG, concurrency=12), [], [("itl", 0.05)])
    figures = [value for name in prediction.__dataclass_fields__ if hasattr(value := getattr(prediction, name), "low")]
    assert len(figures) == 11
    for figure in [*figures, *prediction.over_threshold_ratio.values()]:
        assert figure.low <= figure.value <= figure.high
    assert set(prediction.over_threshold_ratio) == {"itl_seconds>0.05"}
    assert prediction.meets_slo is None


def test_more_than_the_engine_serves_is_never_promised() -> None:
    full = ENGINE.full_rate(LONG)
    assert max_rate(ENGINE, LONG, [Objective("itl", 10.0, 0.5)]).value == pytest.approx(0.98 * full)


def test_a_queue_that_grows_without_end_has_no_ttft() -> None:
    """Each later request waits longer: a figure would be that of how long one looked. Gaps have theirs all the same."""
    full = ENGINE.full_rate(LONG)
    for rate in (1.05 * full, 1e9):
        said = predict(ENGINE, replace(LONG, rate=rate), [ITL], [("ttft", 2.0), ("itl", 0.1)])
        assert (said.ttft_mean_seconds, said.ttft_p50_seconds) == (said.ttft_p95_seconds, said.ttft_p99_seconds)
        assert said.ttft_mean_seconds is said.ttft_p95_seconds is None
        assert said.over_threshold_ratio["ttft_seconds>2"] is None
        assert said.over_threshold_ratio["itl_seconds>0.1"] is not None
        assert (said.meets_slo, said.binding) == (False, "queue")
        assert said.itl_p99_seconds is not None
    assert predict(ENGINE, replace(LONG, rate=0.5 * full)).ttft_mean_seconds is not None
