"""When one peer hears of what; resend every 30 s."""

from dataclasses import replace

import pytest

from agent.outputs.alert_lease import HeldAlert
from agent.outputs.peer_schedule import PeerSchedule

A = HeldAlert((("alertname", "A"),), {}, 0.0, 0.0)
B = HeldAlert((("alertname", "B"),), {}, 0.0, 0.0)


@pytest.fixture
def told_at_100() -> PeerSchedule:
    """A was posted well at 100 s."""
    schedule = PeerSchedule(30.0)
    schedule.accepted(schedule.due([A], 100.0))
    schedule.finished([A], 100.0, was_all=True)
    return schedule


def test_everything_is_due_at_the_start() -> None:
    assert PeerSchedule(30.0).due([A, B], 100.0) == [A, B]


@pytest.mark.parametrize(("seconds", "due"), [(100.1, []), (129.9, []), (130.0, [A]), (500.0, [A])])
def test_a_lease_is_renewed_every_resend(told_at_100: PeerSchedule, seconds: float, due: list[HeldAlert]) -> None:
    assert told_at_100.due([A], seconds) == due


def test_a_new_alert_goes_out_at_once_and_alone(told_at_100: PeerSchedule) -> None:
    assert told_at_100.due([A, B], 101.0) == [B]


def test_an_end_goes_out_at_once(told_at_100: PeerSchedule) -> None:
    over = replace(A, resolved_at_seconds=101.0)
    assert told_at_100.due([over], 101.0) == [over]


def test_changed_annotations_wait_for_the_next_resend(told_at_100: PeerSchedule) -> None:
    changed = replace(A, annotations={"summary": "worse"})
    assert told_at_100.due([changed], 101.0) == []
    assert told_at_100.due([changed], 130.0) == [changed]


def test_after_a_failure_all_is_tried_again_after_a_quarter(told_at_100: PeerSchedule) -> None:
    """The peer may have lost everything, also what it had taken before."""
    told_at_100.failed(110.0)
    assert told_at_100.due([A, B], 117.4) == []
    assert told_at_100.wait_seconds(111.0) == 6.5
    assert told_at_100.due([A, B], 117.5) == [A, B]


def test_what_was_refused_is_left_out_until_it_changes(told_at_100: PeerSchedule) -> None:
    told_at_100.refused(B)
    told_at_100.finished([A, B], 130.0, was_all=True)
    assert told_at_100.due([A, B], 160.0) == [A]
    over = replace(B, resolved_at_seconds=150.0)
    assert told_at_100.due([A, over], 160.0) == [A, over]


def test_what_is_no_longer_held_is_forgotten(told_at_100: PeerSchedule) -> None:
    """So that the same alert, when it comes back with the same stamps, is told again."""
    told_at_100.finished([], 101.0, was_all=False)
    assert told_at_100.due([A], 102.0) == [A]


def test_a_round_with_nothing_to_say_waits_for_the_next(told_at_100: PeerSchedule) -> None:
    told_at_100.finished([], 130.0, was_all=True)
    assert told_at_100.wait_seconds(130.0) == 30.0
