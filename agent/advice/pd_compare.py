"""The same engines without the split: what each doing prefill and decode would feel like, for comparison."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from statistics import median

from agent.advice.capacity import EngineCapacity, Prediction, predict
from agent.advice.rehearsal import EngineLimits, Load
from agent.advice.scene import LOAD_SECONDS, USUAL_SPREAD, Scene, objectives_of
from agent.advice.step_model import StepModel
from agent.advice.step_samples import prefilled_tokens
from agent.advice.traffic import traffic_of
from agent.model import SloStatus
from agent.signals.sums import add_up
from agent.windows import Increment

LEAST_STEPS = 2.0  # in a reading with a queue
LEAST_ERROR_RATIO = 0.05  # two engines' parts put together


def aggregated_instead(scene: Scene, model: str, steps: StepModel, promises: Sequence[SloStatus]) -> Prediction | None:
    """What clients would see if every engine of the model did prefill and decode, at the users there are now."""
    targets = [status for (name, _), group in scene.groups().items() if name == model for status in group]
    everything = [scene.increments([status], LOAD_SECONDS) for status in targets]
    prefill = max(everything, key=lambda increments: sum(prefilled_tokens(i) or 0.0 for i in increments))
    seconds_per_token = _prefill_seconds_per_token(prefill, steps)
    asked = traffic_of(prefill)
    answered = max((traffic_of(increments) for increments in everything), key=lambda t: t.output_tokens or 0.0)
    if seconds_per_token is None or asked.input_tokens is None or answered.output_tokens is None:
        return None
    users = sum(traffic.felt_running or 0.0 for traffic in map(traffic_of, everything))
    error = max(LEAST_ERROR_RATIO, steps.error_ratio)
    one = replace(steps, prefill_seconds_per_token=seconds_per_token, error_ratio=error)
    capacity = add_up(prefill).level("kv_capacity_tokens", as_mean=True)
    engine = EngineCapacity(one, EngineLimits(kv_tokens=None if capacity is None else capacity.mean))
    load = Load(
        asked.input_tokens, answered.output_tokens, max(1, ceil(users / len(targets))), spread_ratio=USUAL_SPREAD
    )
    return predict(engine, load, objectives_of(promises))


def _prefill_seconds_per_token(increments: Sequence[Increment], steps: StepModel) -> float | None:
    """From readings in which prompts queued: then one step followed the other. None where there were none."""
    found = []
    for increment in increments:
        counted, tokens = increment.histograms.get("step_tokens"), prefilled_tokens(increment)
        queued = increment.gauges.get(("requests_waiting", ""), 0.0) > 0
        if queued and counted is not None and counted.count >= LEAST_STEPS and tokens:
            seconds = increment.to_seconds - increment.from_seconds - steps.overhead_seconds * counted.count
            found.append(seconds / tokens)
    return median(found) if found else None
