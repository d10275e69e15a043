"""Goodput as events: each request once, and the truth always between what is bad for certain and what may be."""

import random
from dataclasses import dataclass, replace

import pytest
from fake_engine import FakeEngine

from agent.model import Counts, Slo
from agent.sli.canary import canary_events
from agent.sli.count import PendingBook, TargetFacts, count_events
from agent.windows import Windows
from probes.sample import ProbeResult

TARGETS = {"vllm-0": TargetFacts("m", "aggregated", None)}
SLO = Slo("goodput", "chat", "goodput", "engine", 0.95, 2_592_000.0, (), ttft_seconds=2.5, tpot_seconds=0.05)


@dataclass
class Request:
    """Its first token and its end are in these steps. `how` holds "late" (first token after 7 s) and "slow" (0.2 s)."""

    first: int
    end: int
    how: str = ""


def counted(requests: list[Request], steps: int) -> Counts:
    """The events after so many readings, 10 s apart."""
    windows, pending, engine = Windows(), PendingBook(), FakeEngine()
    windows.take(engine.reading(0))
    for step in range(1, steps + 1):
        for request in requests:
            if request.first == step:
                engine.observe("ttft_seconds", 7.0 if "late" in request.how else 0.2)
            if request.end == step:
                engine.finished["stop"] += 1
                engine.observe("tpot_seconds", 0.2 if "slow" in request.how else 0.02)
        engine.running = float(sum(r.first <= step < r.end for r in requests))
        windows.take(engine.reading(10.0 * step))
        count_events((SLO,), TARGETS, windows, pending)
    return windows.events["goodput"].total()


@pytest.mark.parametrize(
    ("requests", "counts"),
    [
        ([Request(1, 2)] * 9, Counts(good=9)),
        ([Request(1, 2, "late")] * 9, Counts(bad=9)),
        ([Request(1, 2, "slow")] * 9, Counts(bad=9)),
        ([Request(1, 2, "late slow")] * 9, Counts(bad=9)),
        ([Request(1, 3, "late")] * 3 + [Request(2, 3, "slow")] * 2 + [Request(2, 3)] * 5,
         Counts(good=5, bad=3, undecided=2)),
    ],
    ids=["good", "late", "slow", "both", "three late, two slow: nobody can tell whether the two are among the three"],
)  # fmt: skip
def test_every_request_counts_once(requests: list[Request], counts: Counts) -> None:
    assert counted(requests, 4) == counts


@pytest.mark.parametrize("seed", range(60))
def test_the_truth_lies_between_the_bounds(seed: int) -> None:
    """Requests at random, until all have ended: as many events as requests, and bad <= truth <= bad + undecided."""
    dice = random.Random(seed)  # noqa: S311  a story
    late, slow = dice.random() * 0.6, dice.random() * 0.6
    requests = [
        Request(
            first := dice.randint(1, 30),
            first + dice.randint(0, 9),
            ("late " if dice.random() < late else "") + ("slow" if dice.random() < slow else ""),
        )
        for _ in range(dice.randint(1, 120))
    ]
    found = counted(requests, 41)
    truth = sum(request.how != "" for request in requests)
    assert found.total == len(requests)
    assert found.bad <= truth <= found.bad + found.undecided


def test_a_slow_share_beside_a_late_one_widens_the_bounds_by_the_smaller_of_the_two() -> None:
    """100 late and 50 slow of 1000, as they come: at least 100 are bad, at most 150."""
    requests = [
        Request(1 + n % 20, 3 + n % 20, {0: "late", 10: "late", 5: "slow"}.get(n % 20, "")) for n in range(1000)
    ]
    found = counted(requests, 30)
    assert (found.total, found.bad) == (1000, pytest.approx(100, abs=5))
    assert found.bad + found.undecided == pytest.approx(150, abs=5)


OK = ProbeResult("vllm-0", "chat", "ok", 10, 11, "m", ttft_seconds=0.3, tpot_seconds=0.02, itl_gaps_seconds=(0.02, 0.4))


@pytest.mark.parametrize(
    ("result", "counts"),
    [
        (OK, Counts(good=1)),
        (replace(OK, ttft_seconds=9.0), Counts(bad=1)),
        (replace(OK, tpot_seconds=0.9), Counts(bad=1)),
        (replace(OK, tpot_seconds=None), Counts(undecided=1)),
        (replace(OK, tpot_seconds=None, ttft_seconds=9.0), Counts(bad=1)),
        (replace(OK, outcome="server_error"), Counts(bad=1)),
    ],
    ids=["kept both", "late", "slow", "pace not shown", "late and pace not shown", "failed"],
)
def test_a_canary_keeps_both_or_is_bad(result: ProbeResult, counts: Counts) -> None:
    assert canary_events(replace(SLO, source="canary"), result, has_succeeded=True).counts == counts


@pytest.mark.parametrize(
    ("gaps", "counts"),
    [((0.02, 0.4), Counts(good=1)), ((0.02, 1.4), Counts(bad=1)), ((), Counts(undecided=1))],
    ids=["flows", "stalls", "no gap shown"],
)
def test_a_canary_stalls_when_any_gap_is_over_the_threshold(gaps: tuple[float, ...], counts: Counts) -> None:
    slo = replace(SLO, sli="stall", source="canary", threshold_seconds=1.0)
    assert canary_events(slo, replace(OK, itl_gaps_seconds=gaps), has_succeeded=True).counts == counts


@pytest.mark.parametrize(
    ("kind", "outcome", "right", "counts"),
    [
        ("correctness", "ok", 1.0, Counts(good=1)),
        ("correctness", "ok", 0.0, Counts(good=1)),  # the first strike is no fault yet
        ("correctness", "ok", None, Counts(undecided=1)),  # it only reasons
        ("correctness", "wrong_answer", 0.0, Counts(bad=1)),
        ("correctness", "garbage_output", 0.0, Counts(bad=1)),
        ("correctness", "stall_timeout", None, Counts()),  # what it would have said is not known
        ("chat", "ok", None, Counts()),
    ],
)
def test_what_an_answer_says_is_an_event_of_its_own(
    kind: str, outcome: str, right: float | None, counts: Counts
) -> None:
    slo = replace(SLO, sli="correctness", source="canary", threshold_seconds=None)
    result = replace(OK, kind=kind, outcome=outcome, figures={"answer_right": right})
    assert canary_events(slo, result, has_succeeded=True).counts == counts


def test_a_known_answer_is_no_event_of_another_promise() -> None:
    slo = replace(SLO, sli="availability", source="canary", threshold_seconds=None)
    assert canary_events(slo, replace(OK, kind="correctness"), has_succeeded=True).counts == Counts()
