"""What one replica carries: the model's answer, held against what was seen."""

import pytest

from agent.advice.carries import Carried, Carries, objectives_of
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
