"""How sure scaling advice is: parts between 0 and 1 that multiply, each of which would make it worthless alone.

Of these facts/recommend.md 5f names data, fit, reach and record. On /metrics autoscalers gate on it, at 0.5.
"""

from collections.abc import Mapping
from math import exp, inf, prod, sqrt

from agent.advice.capacity_book import Shown
from agent.advice.carries import Carried
from agent.advice.demand import Mix
from agent.advice.step_model import LEAST_SAMPLES, StepModel

SETTLING_SECONDS = 40.0  # of load that was seen count as much as all that was not
REACH = 3.0  # facts/recommend.md 5f: at a third more load than was ever seen, a third is left


def confidence_parts(quality_ratio: float, carried: Carried, shown: Shown, asked_ratio: float) -> Mapping[str, float]:
    """Each part by its name: data, fit, seen, width, reach, correction. `asked_ratio` is the part of its time that the
    change would ask of a replica (`load_ratio`), where that is more than now; else 0.
    """
    beyond = asked_ratio / shown.most_load_ratio - 1 if shown.most_load_ratio > 0 else inf * bool(asked_ratio)
    return {
        "data": quality_ratio,
        "fit": max(0.0, 1.0 - carried.error_ratio),
        "seen": _half_at(LEAST_SAMPLES, shown.stretches) * _half_at(SETTLING_SECONDS, shown.seconds),
        "width": min(1.0, (carried.low + carried.value) / (2 * carried.value)) if carried.value > 0 else 0.0,
        "reach": exp(-REACH * max(0.0, beyond)),
        "correction": sqrt(min(carried.correction, 1 / carried.correction)),
    }


def confidence_of(parts: Mapping[str, float]) -> float:
    """All parts together; the ledger's track record comes on top."""
    return round(prod(parts.values()), 2)


def load_ratio(steps: StepModel, mix: Mix, rate: float) -> float:
    """The part of an engine's time that so many requests a second take, beyond the base that every step has; 1 or more:
    it cannot serve them. The rho of facts/recommend.md 5a.
    """
    context = mix.input_tokens + mix.output_tokens / 2
    decode = steps.decode_seconds_per_sequence + steps.decode_seconds_per_kv_token * context
    prefill = steps.prefill_seconds_per_token * mix.input_tokens * (1 - mix.hit_ratio)
    return rate * (prefill + mix.output_tokens * decode)


def _half_at(half: float, value: float) -> float:
    """0 at 0, a half at `half`, towards 1."""
    return value / (value + half)
