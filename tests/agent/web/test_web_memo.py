"""Signals are computed once for all who ask at about the same time, and never served old."""

from dataclasses import dataclass, field

import fake_view
import pytest

from agent.view import SignalsView
from agent.web.memo import SignalsMemo


@dataclass(slots=True)
class CountingView:
    """A view that knows how often it had to compute."""

    clock_seconds: float = 1000.0
    asked: list[float] = field(default_factory=list)

    def now_seconds(self) -> float:
        return self.clock_seconds

    def signals(self, window_seconds: float) -> SignalsView:
        self.asked.append(window_seconds)
        return SignalsView(window_seconds, {}, fake_view.idle())


@pytest.mark.parametrize(
    ("window_seconds", "later_seconds", "computed"),
    [(3600.0, 12.0, 1), (3600.0, 12.1, 2), (60.0, 0.1, 1), (60.0, 0.3, 2), (3600.0, -1.0, 2)],
)
def test_an_answer_is_kept_for_a_three_hundredth_of_its_window(
    window_seconds: float, later_seconds: float, computed: int
) -> None:
    """1/300 of an hour is 12 s, of a minute 0.2 s. A clock that goes back makes every answer void."""
    view = CountingView()
    memo = SignalsMemo(view)
    memo.signals(window_seconds)
    view.clock_seconds += later_seconds
    memo.signals(window_seconds)
    assert len(view.asked) == computed


def test_windows_do_not_share_answers() -> None:
    view = CountingView()
    memo = SignalsMemo(view)
    assert [memo.signals(seconds).window_seconds for seconds in (60.0, 300.0, 60.0)] == [60.0, 300.0, 60.0]
    assert view.asked == [60.0, 300.0]
