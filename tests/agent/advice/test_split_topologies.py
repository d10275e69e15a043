"""What topologies are said to do, where a short rehearsal alone would not show it."""

from math import inf

import pytest
from split_fleet import ENGINE, QUICK

from agent.advice.capacity import Objective
from agent.advice.rehearsal import Load
from agent.advice.topologies import Transfer, aggregated_outlook, split_outlooks

LAX = (Objective("ttft", 1_000.0, 0.95), Objective("itl", 100.0, 0.99))


@pytest.mark.parametrize(
    ("row", "split", "load", "ever"),
    [
        # a prompt takes 1,500 x 360 us and 1,500 / 2,048 of a step's 88 ms: 1.65 a second
        ("1.6 prompts/s for one that prefills", (1, 3), Load(1500.0, 50.0, rate=1.6), True),
        ("1.7 prompts/s for one that prefills", (1, 3), Load(1500.0, 50.0, rate=1.7), False),
        # 181 sequences of 1,650 tokens fill its cache, a step of them is 285 ms: 2.1 answers of 300 tokens a second
        ("2.0 answers/s for one that decodes", (3, 1), Load(1500.0, 300.0, rate=2.0), True),
        ("2.3 answers/s for one that decodes", (3, 1), Load(1500.0, 300.0, rate=2.3), False),
    ],
)
def test_more_than_can_ever_be_served_keeps_no_promise_however_lax(
    row: str,
    split: tuple[int, int],
    load: Load,
    ever: bool,  # noqa: FBT001 - a column
) -> None:
    """240 requests are over before such a queue is long; it grows for ever all the same."""
    (one,) = split_outlooks(ENGINE, load, [split], QUICK, LAX)
    assert (one.strain < inf) == ever, row


def test_posts_take_time_that_decoding_then_lacks() -> None:
    """2 answers a second, and two thirds of every second spent on posting their transfers."""
    load = Load(1500.0, 300.0, rate=2.0)
    (one,) = split_outlooks(ENGINE, load, [(3, 1)], Transfer(0.33, 0.01), LAX)
    assert one.strain == inf


def test_overshoot_goes_on_where_every_request_misses() -> None:
    """A promise of a millisecond and one of ten: both are missed by all, and the second is ten times nearer."""
    load = Load(1500.0, 50.0, rate=0.5)
    near, far = (aggregated_outlook(ENGINE, load, 1, [Objective("ttft", seconds, 0.95)]) for seconds in (0.01, 0.001))
    assert near.strain == far.strain == pytest.approx(20.0)
    assert far.overshoot == pytest.approx(10 * near.overshoot)
