"""The step-time model: exact on exact data, honest about what data cannot tell."""

from random import Random

import pytest

from agent.advice.step_model import fit_step_model
from agent.advice.step_samples import StepSample

TRUTH = (7e-3, 20e-6, 20e-6, 76e-9)


def samples(truth: tuple[float, float, float, float], *, noise: float = 0.0, tied: bool = False) -> list[StepSample]:
    """Stretches of 3 s; `tied`: every sequence has the same context, so that both decode terms say the same."""
    rng, found = Random(1), []  # noqa: S311 - repeatable
    for at in range(60):
        sequences, context = rng.uniform(1, 30), 1000.0 if tied else rng.uniform(200, 4000)
        per_step = (1.0, rng.uniform(0, 300), sequences, sequences * context)
        step = sum(c * x for c, x in zip(truth, per_step, strict=True))
        steps = 3.0 / step
        found.append(StepSample(float(at), 3.0 * rng.gauss(1, noise) if noise else 3.0, *(steps * x for x in per_step)))
    return found


def test_exact_data_gives_all_four_coefficients() -> None:
    model = fit_step_model(samples(TRUTH))
    assert model is not None
    found = (
        model.overhead_seconds,
        model.prefill_seconds_per_token,
        model.decode_seconds_per_sequence,
        model.decode_seconds_per_kv_token,
    )
    assert found == pytest.approx(TRUTH, rel=1e-4)
    assert model.is_split_known
    assert model.error_ratio < 1e-6


def test_where_all_contexts_are_alike_only_the_sum_of_the_decode_terms_is_known() -> None:
    model = fit_step_model(samples(TRUTH, tied=True))
    assert model is not None
    assert not model.is_split_known
    assert model.decode_seconds(16, 16_000) == pytest.approx(16 * 20e-6 + 16_000 * 76e-9, rel=1e-3)


def test_the_standard_error_covers_the_truth_and_grows_away_from_the_data() -> None:
    model = fit_step_model(samples(TRUTH, noise=0.02))
    assert model is not None
    near, far = model.standard_error_ratio(0, 16, 32_000), model.standard_error_ratio(0, 200, 1_000_000)
    assert 0 < near < far
    truth = TRUTH[0] + TRUTH[2] * 16 + TRUTH[3] * 32_000
    assert model.seconds(0, 16, 32_000) == pytest.approx(truth, rel=4 * near)


def test_stretches_with_idle_time_in_them_do_not_bend_the_model() -> None:
    """Every tenth stretch was idle for half its time."""
    spoilt = samples(TRUTH)
    for place in range(0, 60, 10):
        s = spoilt[place]
        spoilt[place] = StepSample(
            s.at_seconds, 3.0, s.steps / 2, s.prefilled_tokens / 2, s.decoded_tokens / 2, s.kv_token_steps / 2
        )
    model = fit_step_model(spoilt)
    assert model is not None
    assert model.overhead_seconds == pytest.approx(TRUTH[0], rel=0.02)


def test_too_few_stretches_are_no_model() -> None:
    assert fit_step_model(samples(TRUTH)[:7]) is None
