"""The forecast: how large the load will at most be until a new replica could serve, in quantiles.

Several predictors run side by side, the last value among them, and are judged online: each is charged the pinball loss
of its upper quantile against what came. The quantiles are those of a predictor's own past errors (conformal): no
distribution is assumed. Sources: Koenker and Bassett 1978 for the loss, Vovk et al. 2005 for conformal prediction.
"""

from bisect import insort
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log

from agent.advice.demand import BIN_SECONDS

SMOOTH_BINS = 3  # a minute: shorter than that is chance, not load
DAY_BINS = int(86_400 / BIN_SECONDS)
WEEK_BINS = 7 * DAY_BINS
KEPT_ERRORS = 60  # one for every horizon: those of overlapping stretches are one event told many times
PRIOR_ERRORS = 2 * (
    -0.05,
    -0.02,
    0.0,
    0.02,
    0.03,
    0.05,
    0.07,
    0.08,
    0.1,
    0.12,
    0.15,
    0.2,
)  # log ratios, before any were seen
FORGET = 0.99  # of the loss, per bin
PREFER_LAST = 0.95  # another predictor has to lose less than that part of what the last value loses
FLOOR = 0.05  # requests per second: below it ratios say nothing
UPPER = 0.9


@dataclass(frozen=True, slots=True)
class Forecast:
    """Requests per second, the largest minute until the horizon: median, 75, 90 and 97 % quantile, and who says so."""

    predictor: str
    horizon_seconds: float
    q50: float
    q75: float
    q90: float
    q97: float


@dataclass(slots=True)
class _Score:
    loss: float = 0.0
    errors: deque[float] = field(default_factory=lambda: deque(PRIOR_ERRORS, KEPT_ERRORS))
    ordered: list[float] = field(default_factory=lambda: sorted(PRIOR_ERRORS))

    def quantile(self, level: float) -> float:
        """The error that is not exceeded with that chance; one more than the rank, as conformal prediction has it."""
        place = min(len(self.ordered) - 1, int(level * (len(self.ordered) + 1)))
        return self.ordered[place]

    def add(self, error: float) -> None:
        if len(self.errors) == KEPT_ERRORS:
            self.ordered.remove(self.errors[0])
        self.errors.append(error)
        insort(self.ordered, error)


@dataclass(slots=True)
class Forecaster:
    """Give it the rates bin by bin; ask it for the largest one ahead."""

    horizon_bins: int = 7
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=WEEK_BINS + 4 * 60))
    scores: dict[str, _Score] = field(default_factory=dict)
    _made: deque[Mapping[str, float]] = field(default_factory=deque)
    _judged: int = 0

    def take(self, rate: float | None) -> None:
        """One more closed bin; a missing one is missing, not 0: what was forecast over it is not judged."""
        if rate is None:
            self._made.clear()
            return
        self.rates.append(max(0.0, rate))
        self._made.append(self._points())
        if len(self._made) > self.horizon_bins:
            self._judge(self._made.popleft(), max(self._smooth(back) for back in range(self.horizon_bins)))

    def forecast(self) -> Forecast | None:
        """None before anything was seen."""
        if not self.rates:
            return None
        points = self._points()
        name = self._best(points)
        score, point = self.scores.setdefault(name, _Score()), points[name]
        most = 3.0 * max(self.rates)
        q50, q75, q90, q97 = (
            min(most, max(0.0, (point + FLOOR) * exp(score.quantile(level)) - FLOOR))
            for level in (0.5, 0.75, UPPER, 0.97)
        )
        return Forecast(name, self.horizon_bins * BIN_SECONDS, q50, q75, q90, q97)

    def _best(self, points: Mapping[str, float]) -> str:
        last = self.scores.get("last value", _Score()).loss * PREFER_LAST
        others = [(self.scores[name].loss, name) for name in points if name != "last value" and name in self.scores]
        loss, name = min(others, default=(last, "last value"))
        return name if loss < last else "last value"

    def _judge(self, made: Mapping[str, float], came: float) -> None:
        """What each said against what came, as log ratios, so that quiet hours count like busy ones.

        Every stretch is charged; only those that do not overlap are kept as errors, or one jump would be many.
        """
        self._judged += 1
        stands_alone = self._judged % self.horizon_bins == 0
        for name, point in made.items():
            score = self.scores.setdefault(name, _Score())
            error = log((came + FLOOR) / (point + FLOOR))
            miss = error - score.quantile(UPPER)
            score.loss = FORGET * score.loss + (1 - FORGET) * max(UPPER * miss, (UPPER - 1) * miss)
            if stands_alone:
                score.add(error)

    def _points(self) -> dict[str, float]:
        """What every predictor says of the largest minute ahead, before its own errors are put on top."""
        last = self._smooth(0)
        points = {
            "last value": last,
            "mean of 3 minutes": _mean(self._latest(9)),
            "largest of 10 minutes": self._largest(30),
        }
        if len(self.rates) >= 12:
            slope = (last - self._smooth(9)) / 9
            points["damped trend"] = max(0.0, last + slope * _damped(self.horizon_bins))
        for name, bins in (("a day ago", DAY_BINS), ("a week ago", WEEK_BINS)):
            if len(self.rates) >= bins + SMOOTH_BINS:
                level = (last + FLOOR) / (self._smooth(bins) + FLOOR)
                ahead = max(self._smooth(bins - step) for step in range(1, self.horizon_bins + 1))
                points[name] = ahead * min(3.0, max(1 / 3, level))
        return points

    def _smooth(self, back: int) -> float:
        """The mean of the minute that ended so many bins ago."""
        end = len(self.rates) - back
        return _mean([self.rates[i] for i in range(max(0, end - SMOOTH_BINS), max(1, end))])

    def _latest(self, count: int) -> Sequence[float]:
        return [self.rates[i] for i in range(max(0, len(self.rates) - count), len(self.rates))]

    def _largest(self, bins: int) -> float:
        return max(self._smooth(back) for back in range(min(bins, len(self.rates))))


def _damped(steps: int, ratio: float = 0.85) -> float:
    """The sum of a damped trend over so many steps."""
    return sum(ratio**step for step in range(1, steps + 1))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
