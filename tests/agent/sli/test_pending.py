"""Requests that have not ended: late ones are counted when they are late, once, and never more than there were."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model import Counts
from agent.sli.pending import Ended, Inside, PendingRequests

DEADLINE, STEP = 30.0, 10.0


def seen(pending: PendingRequests, at: float, inside: float, ended: Ended | None = None, **more: bool) -> Counts:
    restarted = more.get("restarted", False)
    return pending.observe(at, ended or Ended(), Inside(inside, inside), restarted=restarted)


def test_a_request_is_late_when_it_is_late_and_once() -> None:
    """Five are first seen at 10 s; with a deadline of 30 s they are late at 40 s, and end at 60 s."""
    pending = PendingRequests(DEADLINE)
    found = [seen(pending, at, 5) for at in (10, 20, 30, 40, 50)]
    found.append(seen(pending, 60, 0, Ended(bad=5)))
    assert [counts.bad for counts in found] == [0, 0, 0, 5, 0, 0]


def test_a_clock_that_is_set_back_makes_nobody_wait_longer() -> None:
    """Five hang since 10 s. The clock goes back an hour: they have waited as long as before, and are late in time."""
    pending = PendingRequests(DEADLINE)
    found = [seen(pending, at, 5) for at in (3610, 3620, 10, 20, 30, 40)]
    assert [counts.bad for counts in found] == [0, 0, 0, 0, 5, 0]


def test_late_ones_that_end_as_answers_are_not_counted_as_good_as_well() -> None:
    pending = PendingRequests(DEADLINE)
    for at in (10, 20, 30, 40):
        seen(pending, at, 5)
    assert seen(pending, 50, 0, Ended(answered=5)) == Counts()


def test_a_request_that_becomes_late_and_ends_between_two_readings_is_counted_by_its_end() -> None:
    pending = PendingRequests(DEADLINE)
    seen(pending, 10, 5)
    assert seen(pending, 100, 0, Ended(bad=5)) == Counts(bad=5)


def test_stuck_requests_amid_a_flow_of_good_ones_cost_no_good_one_and_are_charged_once() -> None:
    """Three hang from 10 s on. 50 good ones come and go from 60 s to 120 s, then the flow ends, then the three do."""
    pending, counts = PendingRequests(DEADLINE), Counts()
    for at in (10, 20, 30, 40, 50):
        counts += seen(pending, at, 3)
    for at in (60, 70, 80, 90, 100, 110):
        counts += seen(pending, at, 13, Ended(in_time=10 if at > 60 else 0))
    counts += seen(pending, 120, 3, Ended(in_time=10))
    for at in (130, 140, 150, 160, 170):
        counts += seen(pending, at, 3)
    counts += seen(pending, 180, 0, Ended(bad=3))
    assert counts == Counts(good=60, bad=3)


def test_a_request_that_is_scheduled_while_late_is_not_charged_again_at_its_first_token() -> None:
    """It leaves the queue before one reading and has its first token before the next: it is inside all the while."""
    pending, counts = PendingRequests(DEADLINE), Counts()
    for at in (10, 20, 30, 40):
        counts += pending.observe(at, Ended(), Inside(1, 1), restarted=False)
    counts += pending.observe(50, Ended(), Inside(0, 1), restarted=False)
    counts += pending.observe(60, Ended(bad=1), Inside(0, 1), restarted=False)
    assert counts == Counts(bad=1)


def test_a_preempted_request_in_the_queue_is_not_late_for_its_first_token() -> None:
    """It had its first token long ago; the queue holds it again for 60 s."""
    pending = PendingRequests(DEADLINE)
    found = [pending.observe(10, Ended(in_time=1), Inside(0, 1), restarted=False)]
    found.append(pending.observe(20, Ended(), Inside(1, 1, preempted=1), restarted=False))
    found += [pending.observe(at, Ended(), Inside(1, 1), restarted=False) for at in (30, 40, 50, 60, 70, 80)]
    assert sum(counts.bad for counts in found) == 0


def test_clients_that_give_up_before_the_deadline_are_not_late() -> None:
    pending = PendingRequests(DEADLINE)
    found = [seen(pending, 10, 5), seen(pending, 20, 5), seen(pending, 30, 0), seen(pending, 60, 0)]
    assert sum(counts.total for counts in found) == 0


def test_late_clients_that_give_up_stay_counted() -> None:
    pending = PendingRequests(DEADLINE)
    found = [seen(pending, at, 5) for at in (10, 20, 30, 40)] + [seen(pending, 50, 0)]
    assert sum(counts.bad for counts in found) == 5


def test_requests_in_flight_when_the_process_dies_are_bad_unless_they_were_already() -> None:
    """Five are late at 40 s, three more come; at 60 s another process answers."""
    pending = PendingRequests(DEADLINE)
    for at in (10, 20, 30, 40):
        seen(pending, at, 5)
    assert seen(pending, 50, 8).bad == 0
    assert seen(pending, 60, 2, restarted=True).bad == 3
    assert seen(pending, 70, 0, Ended(in_time=2)) == Counts(good=2)


def test_refused_requests_are_bad_and_never_were_inside() -> None:
    pending = PendingRequests(DEADLINE)
    assert seen(pending, 10, 2, Ended(refused=4)) == Counts(bad=4)
    assert [seen(pending, at, 2).bad for at in (20, 30, 40)] == [0, 0, 2]


def test_a_page_without_gauges_claims_nothing_and_loses_no_end() -> None:
    """Four are inside at 10; they end while the gauges are away: nobody gave up, nobody is late."""
    pending, counts = PendingRequests(DEADLINE), seen(PendingRequests(DEADLINE), 0, 0)
    counts += seen(pending, 10, 4)
    counts += pending.observe(20, Ended(in_time=4), None, restarted=False)
    counts += seen(pending, 30, 1)
    counts += seen(pending, 60, 1)
    assert counts == Counts(good=4, bad=1)


@dataclass(slots=True)
class Traffic:
    """Requests with a known truth: (arrival, how long they take; None hangs until it is let go)."""

    requests: list[tuple[float, float]]
    counts: Counts = field(default_factory=Counts)

    def ended(self, start: float, end: float) -> Ended:
        took = [length for at, length in self.requests if start < at + length <= end]
        return Ended(in_time=sum(t <= DEADLINE for t in took), bad=sum(t > DEADLINE for t in took))

    def inside(self, at: float) -> int:
        return sum(arrived <= at < arrived + length for arrived, length in self.requests)

    def late_by(self, at: float) -> int:
        return sum(length > DEADLINE and arrived + DEADLINE <= at for arrived, length in self.requests)


arrivals = st.lists(st.tuples(st.floats(0.1, 300), st.floats(0.1, 150)), max_size=60)


@given(arrivals)
def test_late_requests_are_never_overstated_and_all_are_counted_in_the_end(requests: list[tuple[float, float]]) -> None:
    """Conservation: bad is at most the truth at every reading, and equal to it once all have ended."""
    traffic, pending, counts = Traffic(requests), PendingRequests(DEADLINE), Counts()
    for step in range(1, 50):
        at = step * STEP
        inside = traffic.inside(at)
        added = pending.observe(at, traffic.ended(at - STEP, at), Inside(inside, inside), restarted=False)
        assert min(added.good, added.bad, added.undecided) >= 0
        counts += added
        assert counts.bad <= traffic.late_by(at)
    assert counts == Counts(
        good=sum(length <= DEADLINE for _, length in requests), bad=sum(length > DEADLINE for _, length in requests)
    )


@given(arrivals, st.integers(2, 30))
def test_of_hanging_requests_all_are_counted_one_deadline_after_arrivals_cease(
    requests: list[tuple[float, float]], hanging: int
) -> None:
    """Whoever hangs is late for certain once nobody newer is inside."""
    everyone = [*requests, *((5.0 * i, 1e9) for i in range(1, hanging))]
    traffic, pending, counts = Traffic(everyone), PendingRequests(DEADLINE), Counts()
    for step in range(1, 60):
        at, inside = step * STEP, traffic.inside(step * STEP)
        counts += pending.observe(at, traffic.ended(at - STEP, at), Inside(inside, inside), restarted=False)
    assert counts.bad == sum(length > DEADLINE for _, length in everyone)
    assert counts.good == sum(length <= DEADLINE for _, length in everyone)


@pytest.mark.parametrize("inside", [0.0, 1.0, 100.0])
def test_nothing_is_ever_negative(inside: float) -> None:
    pending = PendingRequests(DEADLINE)
    for at, now in ((10, inside), (20, 0.0), (60, inside), (100, 3.0), (140, 0.0)):
        counts = seen(pending, at, now, Ended(answered=2, bad=1, undecided=1))
        assert min(counts.good, counts.bad, counts.undecided) >= 0
