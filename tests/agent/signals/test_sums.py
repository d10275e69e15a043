"""Gauges of several engines, each read at its own moments."""

import pytest

from agent.signals.model import Level
from agent.signals.sums import add_up
from agent.windows import EngineKey, Increment


def reads(engine: str, *values: tuple[float, float]) -> list[Increment]:
    """Readings of one engine's queue: (at, waiting)."""
    key = EngineKey(engine, "vllm", "0", "m")
    return [Increment(key, at, at, {}, {}, {("requests_waiting", ""): value}, restarted=False) for at, value in values]


def every_10(engine: str, start: float, end: float, value: float) -> list[Increment]:
    return reads(engine, *((at, value) for at in range(int(start), int(end), 10)))


def level(*increments: list[Increment]) -> Level | None:
    return add_up(one for many in increments for one in many).level("requests_waiting")


def test_engines_are_added_up_though_read_at_different_moments() -> None:
    assert level(every_10("a", 0, 100, 3), every_10("b", 4, 104, 5)) == Level(8, 8, 8)


def test_a_first_reading_alone_is_not_the_fleet() -> None:
    """`a` is read at 0, `b` at 4: at 0 nothing is known of `b`, so that there is no sum yet."""
    found = level(reads("a", (0, 3), (10, 3)), reads("b", (4, 50), (14, 1)))
    assert found is not None
    assert found.max == 53
    assert found.mean == pytest.approx((53 + 53 + 4) / 3)


def test_a_replica_that_comes_later_does_not_hide_what_was_before() -> None:
    """One replica with a queue of 90; a second one comes after 900 s, and the queue is gone."""
    found = level(every_10("a", 0, 900, 90), every_10("a", 900, 1000, 0), every_10("b", 904, 1000, 0))
    assert found is not None
    assert (found.max, found.last) == (90, 0)
    assert found.mean > 70


def test_an_engine_that_is_gone_does_not_go_on_waiting() -> None:
    """`b` had 500 waiting when it was last read, 900 s ago."""
    found = level(every_10("a", 0, 1000, 1), every_10("b", 4, 100, 500))
    assert found is not None
    assert (found.max, found.last) == (501, 1)
    assert found.mean < 100


def test_while_an_engine_is_away_the_sum_is_not_known() -> None:
    """`b` is not read from 100 to 900 s and then again: in between nobody knows, and its old 500 are not the answer."""
    found = level(every_10("a", 0, 1000, 1), every_10("b", 4, 100, 500), every_10("b", 904, 1000, 0))
    assert found is not None
    assert found.last == 1
    assert found.mean == pytest.approx((501 * 21 + 1 * 21) / 42, rel=0.1)


def test_one_reading_is_a_level_and_none_is_none() -> None:
    assert level(reads("a", (5, 2))) == Level(2, 2, 2)
    assert level() is None
