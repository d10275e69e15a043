"""How sure scaling advice is: as sure as what was seen, how well the model fits it, how far it has to reach, and what
came of earlier advice.
"""

from dataclasses import replace
from math import exp, inf

import pytest
from watched_fleet import WatchedFleet

from agent.advice.capacity_book import Shown
from agent.advice.carries import Carried
from agent.advice.confidence import confidence_of, confidence_parts, load_ratio
from agent.advice.demand import Mix
from agent.advice.step_model import StepModel

SURE = Carried(4.0, 4.0, 4.0, "ttft", 0.0, 1.0)
MUCH = Shown(1_000_000, 1e9, 0.6)


def confidence(carried: Carried = SURE, shown: Shown = MUCH, *, quality: float = 1.0, asked: float = 0.0) -> float:
    return confidence_of(confidence_parts(quality, carried, shown, asked))


def test_only_what_was_seen_for_long_and_fits_without_any_error_is_certain() -> None:
    assert confidence() == 1.0


@pytest.mark.parametrize(
    ("part", "expected", "found"),
    [
        ("one reading of ten is missing", 0.9, confidence(quality=0.9)),
        ("nothing was read", 0.0, confidence(quality=0.0)),
        ("the law misses the median stretch by 5 %", 0.95, confidence(replace(SURE, error_ratio=0.05))),
        ("8 stretches: as many as a model needs at least", 0.5, confidence(shown=replace(MUCH, stretches=8))),
        ("72 stretches", 0.9, confidence(shown=replace(MUCH, stretches=72))),
        ("forty seconds were seen", 0.5, confidence(shown=replace(MUCH, seconds=40.0))),
        ("six minutes were seen", 0.9, confidence(shown=replace(MUCH, seconds=360.0))),
        ("nothing was seen", 0.0, confidence(shown=Shown(0, 0.0, 0.0))),
        ("the pessimistic end is 60 % of the value", 0.8, confidence(replace(SURE, low=2.4))),
        ("a load as was seen", 1.0, confidence(asked=0.6)),
        ("a load a third above any that was seen", round(exp(-1), 2), confidence(asked=0.8)),
        ("a load that no engine serves", 0.0, confidence(asked=inf)),
        ("a load, and none was ever seen", 0.0, confidence(shown=replace(MUCH, most_load_ratio=0.0), asked=0.1)),
        ("it carries 64 % of what the model says", 0.8, confidence(replace(SURE, correction=0.64))),
        ("it carries more than it says, in the same proportion", 0.8, confidence(replace(SURE, correction=1.5625))),
    ],
)  # fmt: skip
def test_part(part: str, expected: float, found: float) -> None:
    assert found == pytest.approx(expected, abs=0.005), part


def test_parts_multiply() -> None:
    assert confidence(replace(SURE, low=3.0), replace(MUCH, seconds=360.0), quality=0.9) == pytest.approx(
        0.875 * 0.9 * 0.9, abs=0.005
    )


def test_the_load_ratio_is_the_time_that_requests_take_beyond_the_base_of_a_step() -> None:
    """1000 tokens to compute of 2000 at 100 us, 100 steps with 50 us each and 2050 resident tokens at 10 ns each: 0.1 +
    0.005 + 0.00205 s a request; five a second take 0.535 of the time.
    """
    steps = StepModel(20e-3, 100e-6, 50e-6, 10e-9, is_split_known=True, error_ratio=0.0, samples=60)
    assert load_ratio(steps, Mix(2000.0, 100.0, 0.5), 5.0) == pytest.approx(0.53525)


def test_six_minutes_are_a_suggestion_and_confidence_grows_with_what_is_seen() -> None:
    """What autoscalers follow (0.5) is reached within five minutes; 0.8, "sure enough to act on", is not by six."""
    fleet = WatchedFleet(lambda _: 6.0, 3)
    fleet.go(360.0)
    told = [wish.confidence for wish in fleet.wishes if wish.confidence > 0]
    assert 0.5 <= told[-1] < 0.8
    assert told[0] < told[-1]
    assert told[-1] == max(told)
    (learned,) = fleet.memory.advisor.capacity.learned.values()
    assert learned.shown.stretches == learned.book.added
    assert 300.0 < learned.shown.seconds < 360.0
    assert 0.3 < learned.shown.most_load_ratio < 0.7
