"""When requests come: a rate that changes over time, and gaps that are regular, Poisson or bursty around it."""

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, inf, pi
from random import Random

_SLICE_SECONDS = 1.0  # the rate is taken as constant within a slice; every profile here changes far more slowly


@dataclass(frozen=True, slots=True)
class Steps:
    """A rate that jumps: (from seconds after the start, requests per second), ascending; before the first it is 0."""

    points: tuple[tuple[float, float], ...]

    def __call__(self, seconds: float) -> float:
        rate = 0.0
        for since, value in self.points:
            if seconds < since:
                break
            rate = value
        return rate


@dataclass(frozen=True, slots=True)
class Ramp:
    """A rate that moves in straight lines between (seconds, requests per second), and stays at the outer ones."""

    points: tuple[tuple[float, float], ...]

    def __call__(self, seconds: float) -> float:
        before = self.points[0]
        for point in self.points:
            if seconds < point[0]:
                span = point[0] - before[0]
                return before[1] + (point[1] - before[1]) * (seconds - before[0]) / span if span else before[1]
            before = point
        return before[1]


Cv = float | Callable[[float], float]
"""A coefficient of variation, or one that changes with the seconds since the start."""


class Arrivals:
    """Gaps of mean 1 and coefficient of variation `cv`, stretched by the rate: cv 1 is Poisson, larger is bursty.

    `rate` takes seconds since the start and gives requests per second; it may be replaced at any time.
    """

    def __init__(self, rate: Callable[[float], float], rng: Random, start_seconds: float, *, cv: Cv = 1.0) -> None:
        self.rate = rate
        self._rng = rng
        self._start_seconds = start_seconds
        self._cv = cv
        self._at_seconds = start_seconds
        self._missing = self._gap()

    def next_seconds(self, until_seconds: float) -> float:
        """The next arrival if it comes by then, infinity if not. Asking again gives the same answer."""
        while self._missing > 0 and self._at_seconds < until_seconds:
            since = self._at_seconds - self._start_seconds
            slice_seconds = min(_SLICE_SECONDS - since % _SLICE_SECONDS, until_seconds - self._at_seconds)
            rate = self.rate(since)
            if rate * slice_seconds >= self._missing:
                self._at_seconds += self._missing / rate
                self._missing = 0.0
            else:
                self._missing -= rate * slice_seconds
                self._at_seconds += slice_seconds
        return self._at_seconds if self._missing <= 0 else inf

    @property
    def latest_seconds(self) -> float:
        """Up to when arrivals have been looked for."""
        return self._at_seconds

    def rate_at(self, at_seconds: float) -> float:
        """Requests per second at a time."""
        return self.rate(at_seconds - self._start_seconds)

    def take(self) -> float:
        """The arrival that `next_seconds` announced; the one after it is drawn."""
        self._missing = self._gap()
        return self._at_seconds

    def _gap(self) -> float:
        cv = self._cv(self._at_seconds - self._start_seconds) if callable(self._cv) else self._cv
        if cv == 0:
            return 1.0
        shape = 1 / (cv * cv)
        return max(self._rng.gammavariate(shape, 1 / shape), 1e-9)


@dataclass(frozen=True, slots=True)
class Diurnal:
    """A day that repeats: `low` to `high` requests per second, least at `trough_hour`, weekends a part of it."""

    low: float
    high: float
    trough_hour: float = 4.0
    weekend_ratio: float = 0.6

    def __call__(self, seconds: float) -> float:
        hour = seconds / 3600.0
        wave = (1 - cos(2 * pi * (hour - self.trough_hour) / 24)) / 2
        weekend = self.weekend_ratio if int(hour / 24) % 7 >= 5 else 1.0
        return (self.low + (self.high - self.low) * wave) * weekend
