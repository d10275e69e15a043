"""Signals that were just computed, so that many open pages cost no more than one."""

from dataclasses import dataclass, field

from agent.view import SignalsView, View

STALE_RATIO = 1 / 300
"""Share of its window that an answer may lag behind: 0.2 s of a minute, 12 s of an hour, too little to see."""


@dataclass(slots=True)
class SignalsMemo:
    """The latest answer per window, with the agent's time at which it was computed."""

    view: View
    answers: dict[float, tuple[float, SignalsView]] = field(default_factory=dict)

    def signals(self, window_seconds: float) -> SignalsView:
        """As `View.signals`, at most `STALE_RATIO` of the window old."""
        now_seconds = self.view.now_seconds()
        at_seconds, answer = self.answers.get(window_seconds, (None, None))
        if answer is None or at_seconds is None or not 0 <= now_seconds - at_seconds <= window_seconds * STALE_RATIO:
            answer = self.view.signals(window_seconds)
            self.answers[window_seconds] = (now_seconds, answer)
        return answer
