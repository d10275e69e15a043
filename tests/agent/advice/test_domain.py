"""Where the model must be silent, careful or open about itself."""

from dataclasses import replace

import pytest

from agent.advice.domain import domain_of
from agent.advice.engine_facts import SPECULATION
from agent.advice.rehearsal import Load
from agent.advice.step_model import StepModel, fit_step_model
from agent.advice.step_samples import StepSample
from agent.advice.traffic import Traffic

TRAFFIC = Traffic(
    600.0,
    900.0,
    2000.0,
    300.0,
    0.0,
    hits_are_whole=False,
    received_ratio=0.0,
    drafts=0.0,
    preemptions=0.0,
    mean_running=8.0,
    felt_running=9.0,
    longest_input_tokens=4000.0,
    shortest_input_tokens=500.0,
)
LOAD = Load(2000, 300)


def learned(base_growth: float = 0.0) -> tuple[list[StepSample], StepModel]:
    """Stretches at 1 to 32 sequences. `base_growth`: how much of the base sleeps in small batches (experts)."""
    samples = []
    for at in range(128):
        sequences, prefill = 1.0 + at % 32, 40.0 * (at % 7)
        base = 5e-3 * (1 - base_growth * 0.85**sequences)
        step = base + 20e-6 * prefill + 30e-9 * sequences * 2000
        per_step = (1.0, prefill, sequences, sequences * 2000)
        samples.append(StepSample(float(at), 3.0, *(3.0 / step * x for x in per_step)))
    model = fit_step_model(samples)
    assert model is not None
    return samples, model


def test_a_plain_engine_has_its_domain_and_no_refusal() -> None:
    domain = domain_of(*learned(), TRAFFIC, "llama-3.1-8b")
    assert domain.sequences == (1.0, 32.0)
    assert domain.input_tokens == (500.0, 4000.0)
    assert domain.refusals_of(LOAD, 20) == []


@pytest.mark.parametrize(
    ("traffic", "reason"),
    [
        (replace(TRAFFIC, drafts=10.0), "speculative decoding"),
        (replace(TRAFFIC, longest_input_tokens=60_000.0), "beyond 32k"),
    ],
)
def test_what_breaks_the_law_is_refused_with_its_reason(traffic: Traffic, reason: str) -> None:
    refusals = domain_of(*learned(), traffic, "llama-3.1-8b").refusals_of(LOAD, 20)
    assert len(refusals) == 1
    assert reason in refusals[0]


def test_a_base_that_grows_with_the_batch_is_refused() -> None:
    """Experts that wake: at one sequence two fifths of the base sleep."""
    refusals = domain_of(*learned(base_growth=0.5), TRAFFIC, "some-model").refusals
    assert refusals
    assert "linear" in refusals[0] or "misses" in refusals[0]


def test_what_the_configuration_says_is_refused_as_said() -> None:
    domain = domain_of(*learned(), TRAFFIC, "llama-3.1-8b", ["pipeline parallelism: steps overlap"])
    assert domain.refusals_of(LOAD, 4) == ["pipeline parallelism: steps overlap"]


def test_an_architecture_that_reads_otherwise_is_not_extrapolated() -> None:
    domain = domain_of(*learned(), TRAFFIC, "openai/gpt-oss-120b")
    assert domain.refusals_of(LOAD, 30) == []
    assert "sliding-window" in domain.refusals_of(LOAD, 64)[0]


def test_a_hybrid_cache_that_the_page_tells_of_is_not_extrapolated_either() -> None:
    hybrid = ["state-space layers hold no KV"]
    domain = domain_of(*learned(), TRAFFIC, "some-model", (), hybrid)
    assert domain.refusals_of(LOAD, 30) == []
    assert "state-space" in domain.refusals_of(LOAD, 64)[0]


def test_speculation_is_refused_once_however_often_it_is_told() -> None:
    domain = domain_of(*learned(), replace(TRAFFIC, drafts=10.0), "m", [SPECULATION])
    assert domain.refusals == (SPECULATION,)


def test_loads_and_prompts_far_from_those_seen_are_told() -> None:
    domain = domain_of(*learned(), TRAFFIC, "llama-3.1-8b")
    assert any("4.0 times the largest batch" in said for said in domain.warnings_of(LOAD, 128))
    assert any("prompts of 16,000" in said for said in domain.warnings_of(Load(16_000, 300), 20))
    assert "beyond 32k" in domain.refusals_of(Load(40_000, 300), 20)[0]
