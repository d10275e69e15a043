"""The ledger: advice gets one verdict, and only a proven one is good."""

from dataclasses import replace
from typing import Literal

import pytest

from agent.advice.ledger import Ledger
from agent.model import Budget, Burn, BurnPair, Counts, Evidence, Recommendation, Slo, SloStatus, TargetStatus

PAGE = BurnPair("page", "fast", 300.0, 3_600.0, 14.4)
SLO = Slo("s", "chat", "ttft", "engine", 0.99, 2_592_000.0, (PAGE,), 2.5)


def advice(at: float = 0.0, proposed: float = 4, low: float = 3) -> Recommendation:
    return Recommendation(
        f"scale-{at}", at, "m", "aggregated", "scale", 2, proposed, low, 6, "sustained_queueing", "queue", "", 0.7,
        None, (Evidence("burn_rate:s", 3_600.0, 50.0),), (), {}, (), (), "", at + 700,
    )  # fmt: skip


def replicas(count: int, health: Literal["up", "down"] = "up") -> list[TargetStatus]:
    return [TargetStatus(f"v{i}", "vllm", health, 0.0, "ok", "", "m", "aggregated") for i in range(count)]


def standing(rate: float | None) -> list[SloStatus]:
    burning = rate is not None and rate > PAGE.factor
    reason = "no_events" if rate is None else "burning" if burning else "within_budget"
    burn = Burn(PAGE, rate, rate, Counts(), Counts(), burning, reason)
    return [SloStatus(SLO, "ok", (burn,), Budget(None, Counts(), 0.0), None)]


@pytest.mark.parametrize(
    ("row", "up", "slos", "verdict"),
    [
        ("applied, and it burns no more", 3, standing(0.5), "kept"),
        ("applied, and it burns on", 4, standing(50.0), "missed"),
        ("not applied", 2, standing(0.5), "not_applied"),
        ("applied, and nothing tells", 4, standing(None), "unknown"),
        ("applied, and the SLO is gone", 4, [], "unknown"),
    ],
)
def test_verdict(row: str, up: int, slos: list[SloStatus], verdict: str) -> None:
    ledger = Ledger()
    ledger.settle([advice()], replicas(2), standing(50.0), 0.0)
    assert ledger.settle([], replicas(up), slos, 699.0) == ()
    (closed,) = ledger.settle([], replicas(up), slos, 700.0)
    assert (closed.verdict, closed.verdict_at_seconds) == (verdict, 700.0), row
    assert ledger.settle([], replicas(up), slos, 9_000.0) == ()


def test_replicas_that_are_down_do_not_count_as_applied() -> None:
    ledger = Ledger()
    ledger.settle([advice()], replicas(2), standing(50.0), 0.0)
    (closed,) = ledger.settle([], [*replicas(2), *replicas(2, "down")], standing(0.5), 700.0)
    assert closed.verdict == "not_applied"


def test_the_same_advice_is_entered_once_and_larger_advice_supersedes_it() -> None:
    ledger = Ledger()
    ledger.settle([advice(0)], replicas(2), standing(50.0), 0.0)
    assert ledger.settle([advice(5)], replicas(2), standing(50.0), 5.0) == ()
    assert ledger.settle([advice(8, proposed=6)], replicas(2), standing(50.0), 8.0) == (), "6 was in the range told"
    old, new = ledger.settle([advice(10, proposed=7)], replicas(2), standing(50.0), 10.0)
    assert (old.verdict, new.verdict, new.proposed) == ("superseded", None, 7)
    assert ledger.open == [new]


def test_advice_that_was_just_judged_is_not_given_again_at_once() -> None:
    ledger = Ledger()
    ledger.settle([advice(0)], replicas(2), standing(50.0), 0.0)
    ledger.settle([advice(700)], replicas(2), standing(50.0), 700.0)
    assert len(ledger.entries) == 1
    assert ledger.settle([advice(900)], replicas(2), standing(50.0), 900.0)[0].id == "scale-900"


def test_models_have_their_own_topics() -> None:
    ledger = Ledger()
    ledger.settle([advice(0)], replicas(2), standing(50.0), 0.0)
    other = replace(advice(5), id="other", model="n")
    assert ledger.settle([other], replicas(2), standing(50.0), 5.0) == (other,)


def test_the_ledger_is_bounded() -> None:
    ledger = Ledger()
    for number in range(300):
        entry = replace(advice(float(number)), id=str(number), model=str(number))
        ledger.settle([entry], [], [], float(number))
    assert (len(ledger.entries), ledger.entries[-1].id) == (200, "299")
