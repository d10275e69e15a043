"""The capacity book: what every kind of engine has shown of itself, and the model that follows; fed with increments."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.advice.step_model import LEAST_SAMPLES, StepModel, fit_step_model
from agent.advice.step_samples import SampleBook, Sampler
from agent.windows import EngineKey, Increment

REFIT_EVERY = 8  # new samples
CAPACITY_TOLERANCE = 0.02  # a KV cache that differs by more is that of an engine started otherwise


class Kind(NamedTuple):
    """Engines that may be pooled: same model, part and GPU. Different GPUs never share a model."""

    model: str
    role: str
    gpu_type: str


@dataclass(slots=True)
class Learned:
    """What is known of one kind of engine. `version` counts the times it began anew: other engine arguments."""

    kv_capacity_tokens: float
    version: int = 1
    book: SampleBook = field(default_factory=SampleBook)
    _model: StepModel | None = None
    _fitted_at: int = 0

    @property
    def steps(self) -> StepModel | None:
        """The step-time model now; None until enough was seen. Fitted again after every few samples."""
        if self.book.added >= LEAST_SAMPLES and (
            self._fitted_at == 0 or self.book.added - self._fitted_at >= REFIT_EVERY
        ):
            self._model, self._fitted_at = fit_step_model(self.book.samples), self.book.added
        return self._model


@dataclass(slots=True)
class CapacityBook:
    """By kind of engine. Feed it every increment once, in the order of time."""

    learned: dict[Kind, Learned] = field(default_factory=dict)
    _samplers: dict[EngineKey, Sampler] = field(default_factory=dict)

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
            sample = self._samplers.setdefault(increment.key, Sampler()).take(increment)
            if sample is not None:
                known.book.add(sample)

    def forget(self, target: str) -> None:
        """A target that is no longer watched; what it has shown stays."""
        for key in [key for key in self._samplers if key.target == target]:
            del self._samplers[key]
