"""The step-time model: how long one engine step takes, learned from what the engine counts about itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, sqrt
from statistics import median

from agent.advice.step_samples import StepSample
from agent.stats.least_squares import inverse_of, nonnegative_least_squares, normal_equations

DECAY_SECONDS = 3_600.0  # a sample so much older than the newest counts 1/e
LEAST_SAMPLES = 8
OUTLIER = 4.0  # medians of the relative error: beyond it a stretch was idle in part, or disturbed
LEAST_OUTLIER_RATIO = 0.03
SURELY_BUSY = 2  # requests in every reading
COLLINEAR_RATIO = 0.02  # what T0, prefill and one decode term leave of the other's square
PER_STRETCH = 3.0  # overlapping stretches: about so many tell of the same second
TERMS = 4


@dataclass(frozen=True, slots=True)
class StepModel:
    """T = T0 + c_p·prefilled tokens + c_d·decoding sequences + c_k·resident KV tokens, for one step; seconds.

    `is_split_known` is False where the data cannot tell c_d from c_k: only their sum at loads like those seen is known.
    `covariance` is that of the four coefficients, `error_ratio` the median relative error of the `samples` stretches.
    Source of the form: vLLM's scheduler runs one batch a step; weights, prompt tokens and KV are what it reads.
    """

    overhead_seconds: float
    prefill_seconds_per_token: float
    decode_seconds_per_sequence: float
    decode_seconds_per_kv_token: float
    is_split_known: bool
    error_ratio: float
    samples: int
    covariance: tuple[tuple[float, ...], ...] = ()

    def seconds(self, prefill_tokens: float, sequences: float, kv_tokens: float) -> float:
        """How long one step lasts."""
        return (
            self.overhead_seconds
            + self.prefill_seconds_per_token * prefill_tokens
            + self.decode_seconds_per_sequence * sequences
            + self.decode_seconds_per_kv_token * kv_tokens
        )

    def decode_seconds(self, sequences: float, kv_tokens: float) -> float:
        """What decoding adds to a step."""
        return self.decode_seconds_per_sequence * sequences + self.decode_seconds_per_kv_token * kv_tokens

    def standard_error_ratio(self, prefill_tokens: float, sequences: float, kv_tokens: float) -> float:
        """Standard error of a step's predicted time over that time: it grows away from the loads that were seen."""
        x = (1.0, prefill_tokens, sequences, kv_tokens)
        variance = sum(x[a] * self.covariance[a][b] * x[b] for a in range(TERMS) for b in range(TERMS))
        return sqrt(max(0.0, variance)) / self.seconds(prefill_tokens, sequences, kv_tokens)

    def scaled(self, factor: float) -> "StepModel":
        """The same engine, every step `factor` times as long."""
        return replace(
            self,
            overhead_seconds=self.overhead_seconds * factor,
            prefill_seconds_per_token=self.prefill_seconds_per_token * factor,
            decode_seconds_per_sequence=self.decode_seconds_per_sequence * factor,
            decode_seconds_per_kv_token=self.decode_seconds_per_kv_token * factor,
        )


def fit_step_model(samples: Sequence[StepSample]) -> StepModel | None:
    """The model of these stretches, all phases pooled; None where they are too few or say nothing about a step's base.

    Every stretch counts by its relative error, and less the older it is. An engine that idled for a moment takes longer
    than its work, and is the more likely to have idled the fewer requests ran. So the first fit is on the busier half,
    and stretches far off it are left out of the second.
    """
    if len(samples) < LEAST_SAMPLES:
        return None
    usual = max(SURELY_BUSY, median(sample.least_running for sample in samples))
    busier = [sample for sample in samples if sample.least_running >= usual]
    busier = busier if len(busier) >= 2 * LEAST_SAMPLES else list(samples)
    found = _solve(busier)
    errors = _errors(samples, found)
    limit = max(OUTLIER * median(_errors(busier, found)), LEAST_OUTLIER_RATIO)
    kept = [sample for sample, error in zip(samples, errors, strict=True) if error <= limit]
    if len(kept) >= LEAST_SAMPLES:
        samples, found = kept, _solve(kept)
    if found[0] <= 0:
        return None
    errors = _errors(samples, found)
    rows, weights = [sample.row for sample in samples], _weights(samples)
    gram, _ = normal_equations(rows, [0.0] * len(rows), weights)
    return StepModel(
        *found,
        is_split_known=_is_split_known(gram),
        error_ratio=median(errors),
        samples=len(samples),
        covariance=_covariance(gram, found, samples, weights),
    )


def _solve(samples: Sequence[StepSample]) -> tuple[float, float, float, float]:
    rows, targets = [sample.row for sample in samples], [sample.seconds for sample in samples]
    overhead, prefill, sequence, kv = nonnegative_least_squares(rows, targets, _weights(samples))
    return overhead, prefill, sequence, kv


def _weights(samples: Sequence[StepSample]) -> list[float]:
    newest = max(sample.at_seconds for sample in samples)
    return [exp((s.at_seconds - newest) / DECAY_SECONDS) / s.seconds**2 for s in samples]


def _errors(samples: Sequence[StepSample], found: Sequence[float]) -> list[float]:
    return [abs(_residual(sample, found)) / sample.seconds for sample in samples]


def _is_split_known(gram: Sequence[Sequence[float]]) -> bool:
    """Whether each decode term says something that T0, prefill and the other do not."""
    for term, others in ((2, (0, 1, 3)), (3, (0, 1, 2))):
        usable = [j for j in others if gram[j][j] > 0]
        inverse = inverse_of(gram, usable)
        if inverse is None or gram[term][term] <= 0:
            return False
        explained = sum(
            gram[term][j] * inverse[a][b] * gram[term][k] for a, j in enumerate(usable) for b, k in enumerate(usable)
        )
        if 1 - explained / gram[term][term] < COLLINEAR_RATIO:
            return False
    return True


def _covariance(
    gram: Sequence[Sequence[float]], found: Sequence[float], samples: Sequence[StepSample], weights: Sequence[float]
) -> tuple[tuple[float, ...], ...]:
    """Of the coefficients in use. Overlapping stretches tell of the same seconds, so they count as a third each."""
    used = [j for j in range(TERMS) if found[j] > 0]
    inverse = inverse_of(gram, used)
    if inverse is None:
        return tuple((0.0,) * TERMS for _ in range(TERMS))
    squares = sum(w * _residual(s, found) ** 2 for w, s in zip(weights, samples, strict=True))
    variance = PER_STRETCH * squares / max(1.0, len(samples) - PER_STRETCH * len(used))
    table = [[0.0] * TERMS for _ in range(TERMS)]
    for a, j in enumerate(used):
        for b, k in enumerate(used):
            table[j][k] = inverse[a][b] * variance
    return tuple(tuple(row) for row in table)


def _residual(sample: StepSample, found: Sequence[float]) -> float:
    return sample.seconds - sum(c * x for c, x in zip(found, sample.row, strict=True))
