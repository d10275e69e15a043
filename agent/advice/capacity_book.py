"""The capacity book: what every kind of engine has shown of itself, and the model that follows; fed with increments."""

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from math import ceil, inf
from statistics import median
from typing import Any, NamedTuple

from agent.advice.step_model import LEAST_SAMPLES, StepModel, fit_step_model
from agent.advice.step_samples import MOST_PER_CELL, SampleBook, Sampler, StepSample, prefilled_tokens
from agent.advice.token_budget import TokenBudget, infer_token_budget
from agent.model import LearnedEngine
from agent.stats.buckets import Buckets
from agent.windows import EngineKey, Increment

REFIT_EVERY = 8  # new samples
CAPACITY_TOLERANCE = 0.02  # a KV cache that differs by more is that of an engine started otherwise
DRIFT_SAMPLES = 12  # so many stretches in a row off by so much, to one side: the engine is not the one it was
DRIFT_RATIO = 0.15
MOST_QUANTILE = 0.98  # the largest of many is an outlier
FRONT_ENDS = 32
LEAST_FRONT_ENDS = 3
BEGUN = "prompt_tokens"  # how many prompts began, and their tokens together
TELLING = ("step_tokens", "itl_seconds", "request_prompt_tokens")


class Kind(NamedTuple):
    """Engines that may be pooled: same model, part and GPU. Different GPUs never share a model."""

    model: str
    role: str
    gpu_type: str


@dataclass(frozen=True, slots=True)
class Shown:
    """How much a kind of engine has shown of itself: busy stretches, the time from the first to the last, and the
    largest part of its time that its load took (beyond the base of every step), in all but one of fifty stretches.
    """

    stretches: int
    seconds: float
    most_load_ratio: float


@dataclass(slots=True)
class Learned:
    """What is known of one kind of engine. `version` counts the times it began anew: another cache size, or drift."""

    kv_capacity_tokens: float
    version: int = 1
    book: SampleBook = field(default_factory=SampleBook)
    began_at_seconds: float | None = None
    _model: StepModel | None = None
    _fitted_at: int = 0
    _recent: deque[StepSample] = field(default_factory=lambda: deque(maxlen=DRIFT_SAMPLES))
    _lonely: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=FRONT_ENDS))
    _observed: dict[str, Buckets] = field(default_factory=dict)

    @property
    def steps(self) -> StepModel | None:
        """The step-time model now; None until enough was seen. Fitted again after every few samples."""
        is_first, fresh = self._fitted_at == 0, self.book.added - self._fitted_at
        if self.book.added >= LEAST_SAMPLES and (is_first or fresh >= REFIT_EVERY):
            self._model, self._fitted_at = fit_step_model(self.book.samples), self.book.added
        return self._model

    def add(self, sample: StepSample) -> None:
        """One more stretch. Where all the latest ones are off to one side, everything older is of another engine."""
        self.book.add(sample)
        self._recent.append(sample)
        if self.began_at_seconds is None:
            self.began_at_seconds = sample.at_seconds
        model = self._model
        if model is None or len(self._recent) < DRIFT_SAMPLES:
            return
        ratios = [s.seconds / (model.seconds(*(x / s.steps for x in s.row[1:])) * s.steps) for s in self._recent]
        if min(ratios) > 1 + DRIFT_RATIO or max(ratios) < 1 - DRIFT_RATIO:
            self.version += 1
            self.book, self._model, self._fitted_at = SampleBook(), None, 0
            for recent in self._recent:
                self.book.add(recent)
            self.began_at_seconds = self._recent[0].at_seconds
            self._lonely.clear()
            self._observed.clear()

    def observe(self, increment: Increment) -> None:
        """Add up what tells the token budget: steps while somebody waits, and gaps while nobody is preempted."""
        waiting, preempted = (
            increment.gauges.get(("requests_waiting", "")),
            increment.counters.get(("preemptions_total", "")),
        )
        says_nothing = {"step_tokens": not waiting, "itl_seconds": bool(preempted)}
        for signal in TELLING:
            buckets = increment.histograms.get(signal)
            if buckets is not None and buckets.count and not says_nothing.get(signal):
                self._add(signal, buckets)
        begun, tokens = increment.histograms.get("ttft_seconds"), increment.counters.get(("prompt_tokens_total", ""))
        if begun is not None and begun.count and tokens is not None:
            self._add(BEGUN, Buckets((inf,), (begun.count,), tokens))

    def _add(self, signal: str, buckets: Buckets) -> None:
        before = self._observed.get(signal)
        self._observed[signal] = buckets if before is None else before + buckets

    def token_budget(self) -> TokenBudget:
        """The token budget as far as everything seen of this engine tells it, with the prompts of the same time."""
        model, samples = self.steps, self.book.samples
        sizes, gaps, prompts = map(self._observed.get, TELLING)
        begun = self._observed.get(BEGUN)
        mean = None if begun is None or begun.total is None else begun.total / begun.count
        decode = 0.0
        if model is not None:
            decode = median(model.seconds(0.0, s.decoded_tokens / s.steps, s.kv_token_steps / s.steps) for s in samples)
        return infer_token_budget(sizes, gaps, mean, model, decode, prompts)

    @property
    def shown(self) -> Shown:
        """How much of this engine was seen, since it last began anew."""
        samples, model = self.book.samples, self.steps
        if self.began_at_seconds is None or model is None:
            return Shown(self.book.added, 0.0, 0.0)
        loads = sorted(1 - model.overhead_seconds * sample.steps / sample.seconds for sample in samples)
        most = max(0.0, loads[int(MOST_QUANTILE * (len(loads) - 1))])
        return Shown(self.book.added, samples[-1].at_seconds - self.began_at_seconds, most)

    def outline(self) -> dict[str, object]:
        """All of it, as plain values: the samples and the model fitted on them."""
        return {
            "kv_capacity_tokens": self.kv_capacity_tokens,
            "version": self.version,
            "cells": [(cell, [astuple(s) for s in samples]) for cell, samples in self.book.cells.items()],
            "added": self.book.added,
            "began_at_seconds": self.began_at_seconds,
            "model": None if self._model is None else astuple(self._model),
            "fitted_at": self._fitted_at,
            "recent": [astuple(sample) for sample in self._recent],
            "lonely": list(self._lonely),
            "observed": [(signal, seen.edges[:-1], seen.counts, seen.total) for signal, seen in self._observed.items()],
        }

    @classmethod
    def restored(cls, form: Mapping[str, Any]) -> "Learned":
        """What `outline` told. Raises ValueError, LookupError or TypeError where it is something else."""
        cells = {(int(a), int(b)): deque(map(_sample, samples), MOST_PER_CELL) for (a, b), samples in form["cells"]}
        model = form["model"]
        if model is not None:
            *terms, is_split_known, error, samples, covariance = model
            overhead, prefill, sequence, kv = map(float, terms)
            rows = tuple(tuple(map(float, row)) for row in covariance)
            model = StepModel(overhead, prefill, sequence, kv, bool(is_split_known), float(error), int(samples), rows)
        return cls(
            float(form["kv_capacity_tokens"]),
            int(form["version"]),
            SampleBook(cells, int(form["added"])),
            None if form["began_at_seconds"] is None else float(form["began_at_seconds"]),
            model,
            int(form["fitted_at"]),
            deque(map(_sample, form["recent"]), DRIFT_SAMPLES),
            deque(((float(ttft), float(tokens)) for ttft, tokens in form["lonely"]), FRONT_ENDS),
            {str(signal): _buckets(*rest) for signal, *rest in form["observed"]},
        )

    def add_lonely(self, ttft_seconds: float, prompt_tokens: float) -> None:
        """The time to first token of a request that had the engine (nearly) to itself."""
        self._lonely.append((ttft_seconds, prompt_tokens))

    def front_end_seconds(self, token_budget: int) -> float | None:
        """From a request's arrival to the engine: what its time to first token is longer than its prefill takes.

        None where too few requests had the engine to themselves.
        """
        model = self.steps
        if model is None or len(self._lonely) < LEAST_FRONT_ENDS:
            return None
        rests = [
            ttft - model.prefill_seconds_per_token * tokens - model.overhead_seconds * ceil(tokens / token_budget)
            for ttft, tokens in self._lonely
        ]
        return max(0.0, median(rests))


@dataclass(slots=True)
class CapacityBook:
    """By kind of engine. Feed it every increment once, in the order of time."""

    learned: dict[Kind, Learned] = field(default_factory=dict)
    _samplers: dict[EngineKey, Sampler] = field(default_factory=dict)
    _before: dict[EngineKey, Increment] = field(default_factory=dict)

    def take(self, increments: Iterable[Increment], kind_of: Callable[[EngineKey], Kind]) -> None:
        """Learn from what came in; `kind_of` says which engines are alike. Other systems are passed over."""
        for increment in increments:
            capacity = increment.gauges.get(("kv_capacity_tokens", ""))
            if increment.key.source != "vllm" or capacity is None:
                continue
            kind = kind_of(increment.key)
            known = self.learned.get(kind)
            if known is None or abs(known.kv_capacity_tokens / capacity - 1) > CAPACITY_TOLERANCE:
                known = self.learned[kind] = Learned(capacity, 1 if known is None else known.version + 1)
            known.observe(increment)
            sample = self._samplers.setdefault(increment.key, Sampler()).take(increment)
            if sample is not None:
                known.add(sample)
            lonely = _lonely(self._before.get(increment.key), increment)
            if lonely is not None:
                known.add_lonely(*lonely)
            self._before[increment.key] = increment

    def engines(self) -> tuple[LearnedEngine, ...]:
        """What is known of every kind, for people."""
        return tuple(_told(kind, learned) for kind, learned in sorted(self.learned.items()))

    def keep(self, targets: Container[str]) -> None:
        """Forget all other targets, which are no longer watched; what they have shown stays."""
        for key in [key for key in self._samplers if key.target not in targets]:
            del self._samplers[key]
            self._before.pop(key, None)


def _sample(numbers: Iterable[float]) -> StepSample:
    return StepSample(*map(float, numbers))


def _buckets(edges: Iterable[float], counts: Iterable[float], total: float | None) -> Buckets:
    """A histogram without its last edge, which is infinite."""
    return Buckets((*map(float, edges), inf), tuple(map(float, counts)), None if total is None else float(total))


def _told(kind: Kind, learned: Learned) -> LearnedEngine:
    steps, known = learned.steps, learned.book.samples
    told = LearnedEngine(*kind, learned.version, learned.kv_capacity_tokens, len(known))
    if steps is None:
        return told
    return replace(
        told,
        fit_error_ratio=steps.error_ratio,
        step_overhead_seconds=steps.overhead_seconds,
        prefill_seconds_per_token=steps.prefill_seconds_per_token,
        decode_seconds_per_sequence=steps.decode_seconds_per_sequence if steps.is_split_known else None,
        decode_seconds_per_kv_token=steps.decode_seconds_per_kv_token if steps.is_split_known else None,
    )


def _lonely(before: Increment | None, increment: Increment) -> tuple[float, float] | None:
    """(TTFT, computed prompt tokens) of the one request that began here, where at most one other was there."""
    ttft, tokens = increment.histograms.get("ttft_seconds"), prefilled_tokens(increment)
    if before is None or ttft is None or ttft.count != 1 or ttft.total is None or not tokens:
        return None
    for gauges in (before.gauges, increment.gauges):
        if gauges.get(("requests_running", ""), 2.0) > 1 or gauges.get(("requests_waiting", ""), 1.0) > 0:
            return None
    return ttft.total, tokens
