"""The ledger: advice gets one verdict, and only a proven one is good."""

from dataclasses import replace
from typing import Literal

import pytest

from agent.advice.ledger import Ledger
from agent.model import (
    Budget,
    Burn,
    BurnPair,
    Counts,
    Evidence,
    Recommendation,
    ReplicaWish,
    Slo,
    SloStatus,
    TargetStatus,
)

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


def test_replicas_that_were_lost_are_not_missed_in_what_was_applied() -> None:
    """Advised are 4 with 2 lost among them: 2 that serve are all that can."""
    told, ledger = advice(low=4), Ledger()
    ledger.settle(
        [replace(told, evidence=(*told.evidence, Evidence("replicas_lost", 0.0, 2.0)))], replicas(1), standing(50.0), 0
    )
    assert ledger.settle([], [*replicas(2), *replicas(2, "down")], standing(0.5), 700.0)[0].verdict == "kept"


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


def test_settings_have_their_own_topics() -> None:
    """64 sequences are no smaller wish than 2048 tokens: both stay open, and the same again is entered once."""
    ledger = Ledger()
    tokens = replace(advice(0), action="knob", reason_code="token_budget", proposed=2048, low=2048, high=2048)
    seqs = replace(tokens, id="seqs", reason_code="sequence_cap", proposed=64, low=64, high=64)
    ledger.settle([tokens], replicas(2), standing(50.0), 0.0)
    assert ledger.settle([seqs], replicas(2), standing(50.0), 5.0) == (seqs,)
    assert ledger.open == [tokens, seqs]
    assert ledger.settle([seqs], replicas(2), standing(50.0), 10.0) == ()


def test_the_ledger_is_bounded() -> None:
    ledger = Ledger()
    for number in range(300):
        entry = replace(advice(float(number)), id=str(number), model=str(number))
        ledger.settle([entry], [], [], float(number))
    assert (len(ledger.entries), ledger.entries[-1].id) == (200, "299")


def by_model(at: float = 0.0, current: int = 4, proposed: int = 3, foreseen: float = 10.0) -> Recommendation:
    evidence = (
        Evidence("burn_rate:s", 3_600.0, 0.5),
        Evidence("forecast_arrival_rate_q90_per_second", 140.0, foreseen),
    )
    code = "scale_out" if proposed > current else "scale_in"
    return replace(
        advice(at),
        id=f"m-{at}",
        current=current,
        proposed=proposed,
        low=proposed,
        high=proposed,
        reason_code=code,
        evidence=evidence,
    )


def wish(value: int, current: int = 4, rate: float | None = None) -> ReplicaWish:
    return ReplicaWish("m", "aggregated", current, value, value, value, 0.9, "shrink", rate)


def test_advice_by_a_model_follows_the_load_both_ways() -> None:
    """Each count is entered once; another one supersedes it; none at all withdraws it."""
    ledger = Ledger()
    ledger.settle([by_model()], replicas(4), [], 0.0, [wish(3)])
    assert ledger.settle([by_model(5.0)], replicas(4), [], 5.0, [wish(3)]) == ()
    changed = ledger.settle([by_model(10.0, proposed=6)], replicas(4), [], 10.0, [wish(6)])
    assert [entry.verdict for entry in changed] == ["superseded", None]
    (gone,) = ledger.settle([], replicas(4), [], 15.0, [wish(4)])
    assert (gone.verdict, gone.proposed) == ("withdrawn", 6)
    assert ledger.open == []


@pytest.mark.parametrize("reason", ["bad_data", "no_model"])
def test_what_nobody_knows_withdraws_nothing(reason: str) -> None:
    """Pages that are late say nothing of the load: that the count of now stays is no answer to it."""
    ledger = Ledger()
    ledger.settle([by_model(proposed=6)], replicas(4), [], 0.0, [wish(6)])
    assert ledger.settle([], replicas(4), [], 5.0, [replace(wish(4), reason=reason)]) == ()
    assert [entry.proposed for entry in ledger.open] == [6]


def test_advice_that_was_applied_stays_open_until_it_is_judged() -> None:
    ledger = Ledger()
    ledger.settle([by_model()], replicas(4), standing(0.5), 0.0, [wish(3)])
    assert ledger.settle([], replicas(3), standing(0.5), 300.0, [wish(3, 3)]) == ()
    (closed,) = ledger.settle([], replicas(3), standing(0.5), 700.0, [wish(3, 3)])
    assert closed.verdict == "kept"


@pytest.mark.parametrize(
    ("row", "up", "rate", "verdict"),
    [
        ("fewer, applied, as foreseen", 3, 9.0, "kept"),
        ("fewer, not applied", 4, 9.0, "not_applied"),
        ("fewer, applied, over 20 % more than foreseen", 3, 12.5, "confounded"),
        ("fewer, applied, the load is not known", 3, None, "kept"),
    ],
)
def test_verdict_of_fewer(row: str, up: int, rate: float | None, verdict: str) -> None:
    ledger = Ledger()
    ledger.settle([by_model()], replicas(4), standing(0.5), 0.0, [wish(3)])
    (closed,) = ledger.settle([], replicas(up), standing(0.5), 700.0, [wish(3, up, rate)])
    assert closed.verdict == verdict, row


def test_verdicts_feed_the_confidence_of_what_comes_next() -> None:
    """Four kept and one missed are taken for granted: four more missed make 4 / 9 of 4 / 5, that is 0.56."""
    ledger = Ledger([replace(by_model(float(n)), verdict="missed") for n in range(4)])
    assert ledger.track_record(("m", "aggregated", "scale"), 9_000.0) == pytest.approx(5 / 9)
    (entered,) = ledger.settle([by_model(9_000.0)], replicas(4), [], 9_000.0, [wish(3)])
    assert entered.confidence == pytest.approx(0.7 * 5 / 9, abs=0.01)
    assert ledger.track_record(("other", "aggregated", "scale"), 9_000.0) == 1.0
    assert ledger.trusted(wish(3), 9_000.0).confidence == pytest.approx(0.9 * 5 / 9, abs=0.01)


def test_what_missed_gets_another_chance_after_a_day() -> None:
    """Nobody follows advice that is not believed, so nothing of it is kept: without forgetting it would be for good."""
    ledger = Ledger([replace(by_model(float(n)), verdict="missed") for n in range(4)])
    assert ledger.track_record(("m", "aggregated", "scale"), 86_404.0) == 1.0


def test_growing_by_fewer_is_what_open_advice_says_already() -> None:
    """From 2 to 5 was advised; 4, as the forecast calms down, neither replaces nor ends it. 6 does."""
    ledger, grow = Ledger(), replace(by_model(current=2, proposed=5), reason_code="scale_out", low=3, high=6)
    ledger.settle([grow], replicas(2), [], 0.0, [wish(5)])
    assert ledger.settle([replace(grow, id="fewer", proposed=4)], replicas(2), [], 60.0, [wish(4)]) == ()
    changed = ledger.settle([replace(grow, id="more", proposed=6)], replicas(2), [], 120.0, [wish(6)])
    assert [(entry.id, entry.verdict) for entry in changed] == [(grow.id, "superseded"), ("more", None)]


def rebalance(at: float, prefill: int, low: int, high: int) -> Recommendation:
    evidence = (Evidence("requests_per_second", 300.0, 10.0), Evidence("burn_rate:s", 3_600.0, 50.0))
    return replace(
        advice(at), id=f"r-{at}", action="rebalance", current=3.0, proposed=prefill, low=low, high=high,
        reason_code="rebalance_pools", evidence=evidence,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("row", "applied", "rate", "verdict"),
    [
        ("moved, and it burns no more", True, 9.0, "kept"),
        ("not moved", False, 9.0, "not_applied"),
        ("moved, with over 20 % more load than it was about", True, 12.5, "confounded"),
        ("nothing tells whether it was moved", None, 9.0, "unknown"),
    ],
)
def test_verdict_of_what_is_no_number_of_replicas(row: str, applied: bool | None, rate: float, verdict: str) -> None:  # noqa: FBT001 - a column
    ledger = Ledger()
    ledger.settle([rebalance(0.0, 2, 1, 2)], [], standing(50.0), 0.0)
    (closed,) = ledger.settle([], [], standing(0.5), 700.0, [wish(3, 3, rate)], lambda _: applied)
    assert closed.verdict == verdict, row


def test_the_same_way_is_no_other_advice_and_the_other_way_is() -> None:
    """Open: 2 of 3 that prefill. One or two again is a repeat; four is the way back."""
    for prefill, entered in ((1, 0), (2, 0), (4, 2)):
        ledger = Ledger()
        ledger.settle([rebalance(0.0, 2, 1, 2)], [], [], 0.0)
        assert len(ledger.settle([rebalance(60.0, prefill, prefill, prefill)], [], [], 60.0)) == entered, prefill


def test_a_smaller_setting_than_the_open_one_is_no_other_advice() -> None:
    """A budget of 1,024 tokens was advised; 512 a minute later is not told, or advice would flap between the two."""
    ledger = Ledger()
    first = replace(advice(0.0), action="knob", reason_code="token_budget", proposed=1024, low=1024, high=1024)
    ledger.settle([first], [], [], 0.0)
    assert ledger.settle([replace(first, at_seconds=60.0, proposed=512, low=512, high=512)], [], [], 60.0) == ()


def test_advice_of_a_clock_that_was_ahead_is_closed_and_silences_nothing() -> None:
    """Set back by a day: what was said "tomorrow" would stand, and keep the same from being said, until then."""
    ledger = Ledger()
    ledger.settle([advice(86_400.0)], replicas(2), standing(50.0), 86_400.0)
    closed, new = ledger.settle([advice(5.0)], replicas(2), standing(50.0), 5.0)
    assert (closed.verdict, closed.verdict_at_seconds) == ("unknown", 5.0)
    assert (new.at_seconds, new.verdict) == (5.0, None)
