"""Samples for the step-time model: what one engine did in short stretches in which it was never idle."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from agent.raw import SignalKey
from agent.windows import Increment

STRETCH_SECONDS = 2.5  # at least so long; facts: 2 to 5 s give the same coefficients, shorter ones split prompts
LONGEST_SECONDS = 60.0  # of one increment: the gauges at its ends say nothing about its middle
CLOSE_READINGS_SECONDS = 1.5  # with readings this close, one running request in each means busy; else two
MOST_PER_CELL = 24


@dataclass(frozen=True, slots=True)
class StepSample:
    """One stretch of one engine: `seconds` of wall time, all of it busy, less the time in which the engine's loop stood
    still to post KV transfers.

    `decoded_tokens` are the sequences that decoded, added up over the steps; `kv_token_steps` the resident KV tokens,
    added up likewise. vLLM counts a prompt's tokens when the prompt ends, so a stretch that cuts one is off by a part.
    `least_running` is the smallest batch in any of its readings: the larger, the surer the engine was busy.
    """

    at_seconds: float
    seconds: float
    steps: float
    prefilled_tokens: float
    decoded_tokens: float
    kv_token_steps: float
    least_running: float = 1.0

    @property
    def row(self) -> tuple[float, float, float, float]:
        """What T0, c_p, c_d and c_k are multiplied by."""
        return self.steps, self.prefilled_tokens, self.decoded_tokens, self.kv_token_steps


@dataclass(slots=True)
class SampleBook:
    """Samples of one engine, spread over the loads it has seen: of every kind of load the newest are kept."""

    cells: dict[tuple[int, int], deque[StepSample]] = field(default_factory=dict)
    added: int = 0

    def add(self, sample: StepSample) -> None:
        """Keep one more; the oldest of a full cell goes. A cell is a doubling of prefill and of KV tokens a step."""
        prefill, kv = sample.prefilled_tokens / sample.steps, sample.kv_token_steps / sample.steps
        cell = (int(prefill).bit_length(), int(kv).bit_length())
        self.cells.setdefault(cell, deque(maxlen=MOST_PER_CELL)).append(sample)
        self.added += 1

    @property
    def samples(self) -> list[StepSample]:
        """All kept ones, oldest first."""
        return sorted((s for kept in self.cells.values() for s in kept), key=lambda s: s.at_seconds)


@dataclass(slots=True)
class Sampler:
    """Turns the increments of one engine, as they come, into overlapping stretches: one ends at every reading."""

    _parts: deque[StepSample] = field(default_factory=deque)
    _before: Mapping[SignalKey, float] = field(default_factory=dict)

    def take(self, increment: Increment) -> StepSample | None:
        """The stretch that ends here. None where anything it needs is unknown, where the engine was restarted, and
        where it may have been idle: fewer running requests in some reading than the distance of readings asks for; nor
        where numbers of the page are so absurd that their product has no end.
        """
        before, self._before = self._before, increment.gauges
        part = None if increment.restarted else _part(before, increment)
        if part is None:
            self._parts.clear()
            return None
        self._parts.append(part)
        while len(self._parts) > 1 and sum(p.seconds for p in self._parts) - self._parts[0].seconds >= STRETCH_SECONDS:
            self._parts.popleft()
        whole = _together(self._parts)
        return whole if whole.seconds >= STRETCH_SECONDS and whole.steps > 0 and all(map(isfinite, whole.row)) else None


def prefilled_tokens(increment: Increment) -> float | None:
    """Prompt tokens that were computed, not found in a cache; None where the page does not tell."""
    by_source = increment.counters.get(("prompt_tokens_by_source_total", "local_compute"))
    if by_source is not None:
        return by_source
    prompts = increment.counters.get(("prompt_tokens_total", ""))
    hits = increment.counters.get(("prefix_cache_hit_tokens_total", ""))
    return None if prompts is None or hits is None else max(0.0, prompts - hits)


def _part(before: Mapping[SignalKey, float], increment: Increment) -> StepSample | None:
    seconds = increment.to_seconds - increment.from_seconds
    steps, first_tokens = increment.histograms.get("step_tokens"), increment.histograms.get("ttft_seconds")
    prefilled, generated = prefilled_tokens(increment), increment.counters.get(("generation_tokens_total", ""))
    running = [gauges.get(("requests_running", "")) for gauges in (before, increment.gauges)]
    usage = [gauges.get(("kv_usage_ratio", "")) for gauges in (before, increment.gauges)]
    capacity = increment.gauges.get(("kv_capacity_tokens", ""))
    known_running, known_usage = [r for r in running if r is not None], [u for u in usage if u is not None]
    if not 0 < seconds <= LONGEST_SECONDS or steps is None or prefilled is None or generated is None:
        return None
    if len(known_running) < 2 or len(known_usage) < 2 or capacity is None:
        return None
    if min(known_running) < (1 if seconds <= CLOSE_READINGS_SECONDS else 2):
        return None
    posts = increment.histograms.get("nixl_post_seconds")
    if posts is not None and posts.total is not None:
        seconds -= posts.total  # the loop stood still: no step took this long
        if seconds <= 0:
            return None
    decoded = max(0.0, generated - (first_tokens.count if first_tokens else 0.0))
    kv_tokens = sum(known_usage) / 2 * capacity
    return StepSample(
        increment.to_seconds, seconds, steps.count, prefilled, decoded, kv_tokens * steps.count, min(known_running)
    )


def _together(parts: deque[StepSample]) -> StepSample:
    return StepSample(
        parts[-1].at_seconds,
        sum(part.seconds for part in parts),
        sum(part.steps for part in parts),
        sum(part.prefilled_tokens for part in parts),
        sum(part.decoded_tokens for part in parts),
        sum(part.kv_token_steps for part in parts),
        min(part.least_running for part in parts),
    )
