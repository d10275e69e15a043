"""How long prompts and answers are."""

from dataclasses import dataclass
from math import exp, log, sqrt
from random import Random
from typing import Protocol


class Lengths(Protocol):
    """A distribution of token counts."""

    def draw(self, rng: Random) -> int:
        """One length in tokens, at least 1."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same."""

    tokens: int

    def draw(self, rng: Random) -> int:  # noqa: ARG002 - nothing is random here
        return self.tokens


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform over [mean(1 - ratio), mean(1 + ratio)]: what `vllm bench serve --random-range-ratio` draws."""

    mean_tokens: int
    range_ratio: float = 0.0

    def draw(self, rng: Random) -> int:
        low = int(self.mean_tokens * (1 - self.range_ratio))
        high = int(self.mean_tokens * (1 + self.range_ratio))
        return max(1, rng.randint(low, high))


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Lognormal with that mean and coefficient of variation, cut off at `largest`: what chat traffic looks like."""

    mean_tokens: float
    cv: float
    largest: int = 1_000_000
    smallest: int = 1

    def draw(self, rng: Random) -> int:
        variance = log(1 + self.cv * self.cv)
        value = exp(log(self.mean_tokens) - variance / 2 + sqrt(variance) * rng.gauss(0, 1))
        return min(max(int(value), self.smallest), self.largest)


@dataclass(frozen=True, slots=True)
class Weighted:
    """Any distribution given as (tokens, weight) pairs, as ServeGen publishes them."""

    tokens: tuple[int, ...]
    weights: tuple[float, ...]

    def draw(self, rng: Random) -> int:
        return max(1, rng.choices(self.tokens, self.weights)[0])
