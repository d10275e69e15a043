"""The sparklines' memory: one point per look, nothing invented, bounded."""

from dataclasses import replace

import fake_view

from agent.signals.model import Signals
from agent.web.history import POINTS, History


def test_a_point_is_added_only_when_the_clock_has_moved() -> None:
    view, past = fake_view.burning(), History()
    for clock_seconds in (10.0, 10.0, 9.0, 15.0):
        view.clock_seconds = clock_seconds
        past.observe(view)
    assert past.as_json()["at"] == [10.0, 15.0]


def test_unknown_stays_unknown() -> None:
    view, past = fake_view.burning(), History()
    view.total = Signals(seconds=0.0)
    past.observe(view)
    view.clock_seconds += 5
    view.total = replace(fake_view.fleet(), request_rate_per_second=0.0)
    past.observe(view)
    assert past.as_json()["request_rate_per_second"] == [None, 0.0]
    assert past.as_json()["requests_waiting"] == [None, 127]


def test_the_oldest_points_are_forgotten() -> None:
    view, past = fake_view.calm(), History()
    for second in range(POINTS + 3):
        view.clock_seconds = float(second)
        past.observe(view)
    assert len(past.points) == POINTS
    assert past.points[0].at_seconds == 3.0


def test_who_no_longer_answers_is_not_said_to_have_a_queue() -> None:
    """127 wait on vllm-0, by its last reading; with it gone the queue is that of those who answer, or unknown."""
    view, past = fake_view.burning(), History()
    busy, *others = view.snapshot_now.targets
    gone = replace(busy, health="down")
    past.observe(view)
    view.clock_seconds += 5
    view.snapshot_now = replace(view.snapshot_now, targets=(gone, *others))
    past.observe(view)
    view.clock_seconds += 5
    view.snapshot_now = replace(view.snapshot_now, targets=(gone,))
    past.observe(view)
    assert past.as_json()["requests_waiting"] == [127, 0, None]
    assert past.as_json()["request_rate_per_second"][-1] is None
