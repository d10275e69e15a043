"""What replicas do of the whole, and when that is uneven beyond chance."""

import pytest

from agent.advice.shares import Share, gets_more, hottest


def share(name: str, requests: float, loads: tuple[float, ...], work: float | None = None) -> Share:
    return Share(name, requests, work, loads, None, (None,) * 5, None)


EVEN = (10.0, 11.0, 9.0, 10.0, 10.0)


@pytest.mark.parametrize(
    ("row", "loads", "hot"),
    [
        ("twice as much in every minute", (20.0, 21.0, 22.0, 19.0, 20.0), True),
        ("in four of five", (20.0, 21.0, 22.0, 19.0, 10.0), True),
        ("in three of five: bursts do that", (20.0, 21.0, 22.0, 10.0, 10.0), False),
        ("a third more", (13.0, 14.0, 12.0, 13.0, 13.0), False),
    ],
)
def test_a_replica_is_hot_when_it_is_so_minute_after_minute(row: str, loads: tuple[float, ...], hot: bool) -> None:  # noqa: FBT001 - a column
    found = hottest([share("a", 300, EVEN), share("b", 300, loads), share("c", 300, EVEN)])
    assert (found is not None) == hot, row
    assert found is None or found[0].name == "b"


def test_a_ratio_of_next_to_nothing_is_not_hot() -> None:
    """Three times a third of a request is one request."""
    assert hottest([share("a", 30, (0.3,) * 5), share("b", 30, (1.0,) * 5)]) is None


@pytest.mark.parametrize(
    ("row", "requests", "work", "more"),
    [
        ("85 to 15", (510.0, 90.0), (510e3, 90e3), True),
        ("the same: then its load has another reason", (300.0, 300.0), (300e3, 300e3), False),
        ("half more of so few is chance: 18 against 12", (18.0, 12.0), (18e3, 12e3), True),
        ("the same requests, three times the work in them", (300.0, 300.0), (600e3, 200e3), True),
        ("the same requests, and pages do not tell the work", (300.0, 300.0), (None, None), False),
    ],
)
def test_a_hot_replica_gets_more_or_does_not(
    row: str,
    requests: tuple[float, float],
    work: tuple[float | None, float | None],
    more: bool,  # noqa: FBT001 - a column
) -> None:
    a, b = (share(name, count, EVEN, its) for name, count, its in zip("ab", requests, work, strict=True))
    assert gets_more(a, [a, b]) == more, row


def test_a_backlog_that_is_worked_off_was_not_sent_now() -> None:
    """Slow for half an hour, then well again: 4542 are begun beside 1851, of which 2700 had waited for long; a blind
    router sends the same to both. Where the load stands, and does not fall, as many are more.
    """
    fellow = share("a", 1851.0, (8.0,) * 5, 1851e3)
    recovering = share("b", 4542.0, (3098.0, 2558.0, 2018.0, 1478.0, 938.0), 4542e3)
    assert not gets_more(recovering, [fellow, recovering])
    swamped = share("b", 4542.0, (2018.0,) * 5, 4542e3)
    assert gets_more(swamped, [fellow, swamped])
    stuck = share("b", 0.0, (40.0, 30.0, 30.0, 30.0, 30.0), 0.0)
    assert not gets_more(stuck, [fellow, stuck])
