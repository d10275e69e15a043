"""The forecast: how large the load will at most be until a new replica could serve, in quantiles.

Several predictors run side by side, the last value among them, and are judged online: each is charged the pinball loss
of its upper quantile against what came. The quantiles are those of a predictor's own past errors (conformal): no
distribution is assumed. Sources: Koenker and Bassett 1978 for the loss, Vovk et al. 2005 for conformal prediction.
"""

from bisect import insort
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Any

from agent.advice.demand import BIN_SECONDS

SMOOTH_BINS = 3  # a minute: shorter than that is chance, not load
DAY_BINS = int(86_400 / BIN_SECONDS)
WEEK_BINS = 7 * DAY_BINS
KEPT_BINS = WEEK_BINS + 240
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
LAST_GOOD_BINS = 6  # so long what was last known stands for now (facts/recommend.md 5f: two minutes)
CHUNK_BINS = 360  # two hours of rates are kept as one row
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
    """Give it the rates bin by bin; ask it for the largest one ahead. `taken` counts all that it was ever given."""

    horizon_bins: int = 7
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_BINS))
    scores: dict[str, _Score] = field(default_factory=dict)
    taken: int = 0
    _made: deque[Mapping[str, float]] = field(default_factory=deque)
    _judged: int = 0
    _missed: int = 0

    def take(self, rate: float | None) -> None:
        """One more closed bin; a missing one is missing, not 0: what was forecast over it is not judged.

        Bins that were missed are taken to have been like the first one after them: what came before them says nothing
        of now, and a day ago stays a day ago.
        """
        if rate is None:
            self._made.clear()
            self._missed = min(self._missed + 1, KEPT_BINS)
            return
        came, self._missed = self._missed + 1, 0
        self.rates.extend([max(0.0, rate)] * came)
        self.taken += came
        self._made.append(self._points())
        if len(self._made) > self.horizon_bins:
            self._judge(self._made.popleft(), max(self._smooth(back) for back in range(self.horizon_bins)))

    def forecast(self) -> Forecast | None:
        """None before anything was seen, and where nothing was for more than two minutes."""
        if not self.rates or self._missed > LAST_GOOD_BINS:
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

    def outline(self) -> dict[str, object]:
        """All but the rates, as plain values."""
        return {
            "horizon_bins": self.horizon_bins,
            "taken": self.taken,
            "kept": len(self.rates),
            "scores": [(name, score.loss, list(score.errors)) for name, score in self.scores.items()],
            "made": list(self._made),
            "judged": self._judged,
            "missed": self._missed,
        }

    def chunks(self, first: int = 0) -> Iterator[tuple[int, Sequence[float]]]:
        """(number, rates) of the chunks from `first` on of the rates that are kept: chunk n holds those that were
        given as number n·CHUNK_BINS and the following.
        """
        oldest = self.taken - len(self.rates)
        for number in range(max(first, oldest // CHUNK_BINS), -(-self.taken // CHUNK_BINS)):
            places = range(max(oldest, number * CHUNK_BINS), min(self.taken, (number + 1) * CHUNK_BINS))
            yield number, [self.rates[place - oldest] for place in places]

    @classmethod
    def restored(cls, form: Mapping[str, Any], chunks: Mapping[int, Sequence[float]]) -> "Forecaster":
        """What `outline` and `chunks` told. Raises ValueError, LookupError or TypeError where it is something else."""
        taken, kept = int(form["taken"]), int(form["kept"])
        wanted = range((taken - kept) // CHUNK_BINS, -(-taken // CHUNK_BINS))
        rates = [float(rate) for number in wanted for rate in chunks[number]]
        if not kept <= len(rates) < kept + CHUNK_BINS or kept > KEPT_BINS:
            raise ValueError(f"{len(rates)} rates of a forecast are there, of {kept}")
        scores = {}
        for name, loss, errors in form["scores"]:
            known = [float(error) for error in errors]
            scores[str(name)] = _Score(float(loss), deque(known, KEPT_ERRORS), sorted(known))
        made: deque[Mapping[str, float]] = deque(
            {str(name): float(point) for name, point in points.items()} for points in form["made"]
        )
        newest = deque(rates[len(rates) - kept :], KEPT_BINS)
        return cls(int(form["horizon_bins"]), newest, scores, taken, made, int(form["judged"]), int(form["missed"]))

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
