"""What one replica carries: the model's answer, held against what was seen."""

import pytest

from agent.advice.capacity_book import Learned
from agent.advice.carries import Carried, Carries, objectives_of
from agent.advice.demand import Mix
from agent.advice.engine_facts import EngineFacts
from agent.advice.step_model import StepModel
from agent.advice.step_samples import StepSample
from agent.burn_windows import standard_pairs
from agent.model import Slo
from agent.stats.buckets import Buckets
from agent.windows import EngineKey, Increment

MONTH = 30 * 86_400.0
OBJECTIVES = objectives_of([Slo("t", "chat", "ttft", "engine", 0.95, MONTH, standard_pairs(MONTH), 1.0)])


def seen(bad: int, total: int = 100) -> list[Increment]:
    """First tokens of which so many came later than the threshold of one second."""
    buckets = Buckets((1.0, float("inf")), (float(total - bad), float(bad)), None)
    key = EngineKey("v0", "vllm", "0", "m")
    return [Increment(key, 0.0, 10.0, {}, {"ttft_seconds": buckets}, {}, restarted=False)]


def carries(low: float = 4.0) -> Carries:
    return Carries(_answer=Carried(low, 4.4, 5.0, "ttft", 0.02, 1.0))


def after(bad: int, rate: float, *, queues: bool = False, minutes: int = 10) -> float:
    """The correction after so many minutes of the same with one replica."""
    memory = carries()
    for minute in range(1, minutes + 1):
        memory.learn(seen(bad), OBJECTIVES, rate, 1, queues=queues, now_seconds=60.0 * minute)
    return memory.correction


@pytest.mark.parametrize(
    ("row", "bad", "rate", "queues", "expected"),
    [
        ("kept, far from the limit: nothing is learned", 0, 2.0, False, "same"),
        ("kept, near the limit: more is possible", 0, 3.9, False, "more"),
        ("broken under a load that should be carried", 20, 3.0, False, "less"),
        ("broken under more than that: no surprise", 20, 6.0, False, "same"),
        ("a queue that stands under such a load", 20, 3.0, True, "less"),
    ],
)
def test_correction(row: str, bad: int, rate: float, queues: bool, expected: str) -> None:  # noqa: FBT001
    found = after(bad, rate, queues=queues)
    assert ("more" if found > 1 else "less" if found < 1 else "same") == expected, row


def test_nothing_is_learned_while_replicas_come_or_a_queue_is_worked_off() -> None:
    memory = carries()
    for minute in range(1, 11):
        memory.learn(seen(20), OBJECTIVES, 3.0 * minute, minute, queues=False, now_seconds=60.0 * minute)
    assert memory.correction == 1.0


def test_the_correction_is_bounded() -> None:
    assert after(20, 1.0, minutes=200) == 0.4
    assert after(0, 9.0, minutes=200) == 1.6


def test_goodput_asks_for_both_of_its_limits() -> None:
    slo = Slo("g", "chat", "goodput", "engine", 0.9, MONTH, standard_pairs(MONTH), ttft_seconds=2.5, tpot_seconds=0.05)
    found = objectives_of([slo])
    assert [(o.signal, o.threshold_seconds, o.objective_ratio) for o in found] == [
        ("ttft", 2.5, 0.9),
        ("tpot", 0.05, 0.9),
    ]


def test_without_a_model_nothing_is_said() -> None:
    assert carries().ask(None, None, OBJECTIVES, 0.0) is None


def learned() -> Learned:
    """An engine with a model; steps that hold several prompts of 600 tokens count up to 4096."""
    none = ((0.0,) * 4,) * 4
    model = StepModel(5e-3, 25e-6, 0.0, 30e-9, is_split_known=True, error_ratio=0.01, samples=99, covariance=none)
    known = Learned(500_000.0, _model=model, _fitted_at=1)
    known.book.add(StepSample(0.0, 3.0, 500.0, 2000.0, 4000.0, 4e6))
    return known


STEP_TOKENS = Buckets((1.0, 2048.0, 4096.0, float("inf")), (900.0, 30.0, 20.0, 0.0), None)
MIX = Mix(600.0, 200.0, 0.0)


@pytest.mark.parametrize(
    ("facts", "seen_steps", "budget"),
    [
        (EngineFacts(token_budget=1024, source="pod"), [STEP_TOKENS], (1024, "pod")),
        (EngineFacts(), [STEP_TOKENS], (4096, "inferred")),
        (EngineFacts(), [], (8192, "assumed")),
    ],
)
def test_the_token_budget_is_the_one_said_else_inferred_else_assumed(
    facts: EngineFacts, seen_steps: list[Buckets], budget: tuple[int, str]
) -> None:
    known = learned()
    for steps in seen_steps:
        key = EngineKey("v0", "vllm", "0", "m")
        begun = Buckets((float("inf"),), (100.0,), None)
        counted = {("prompt_tokens_total", ""): 60_000.0}, {"step_tokens": steps, "ttft_seconds": begun}
        known.observe(Increment(key, 0.0, 10.0, *counted, {("requests_waiting", ""): 3.0}, restarted=False))
    answer = Carries().ask(known, MIX, OBJECTIVES, 0.0, facts)
    assert answer is not None
    assert answer.budget is not None
    assert (answer.budget.tokens, answer.budget.source) == budget


def test_an_engine_that_the_law_does_not_describe_has_no_answer() -> None:
    assert Carries().ask(learned(), MIX, OBJECTIVES, 0.0, EngineFacts(refusals=("LoRA",))) is None
