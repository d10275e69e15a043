"""What the agent reads from one metrics page, for people: system, engines, signals, warnings."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from probes.marks import page_marks
from probes.names import dcgm, lmcache, lmcache_inprocess, versions, vllm
from probes.page import BOOKS, System, SystemPage
from probes.sample import PageWarning, Reading
from probes.systems import TELLING, detect_system

FAILED = ("error", "abort")  # finish reasons of requests that were not answered
MEAN_SIGNALS = (  # averaged over engines or GPUs; everything else adds up
    *("kv_usage_ratio", "cache_usage_ratio", "pool_kv_usage_ratio", "pool_requests_waiting"),
    *(row.signal for row in dcgm.NAMES if row.unit in ("ratio", "celsius", "hertz")),
)


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine that a page tells of."""

    engine: str
    model: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """The answer. A signal is None when the page does not have it; `system` is "unknown" for a page we cannot read."""

    system: str
    version: str | None
    samples: int
    engines: tuple[Engine, ...]
    signals: Mapping[str, float | None]
    warnings: tuple[PageWarning, ...]

    def json(self) -> dict[str, Any]:
        """The JSON shape `inspect`."""
        return asdict(self)


def inspect_page(text: str) -> Inspection:
    """Read a page as the agent would. Never raises: what is wrong stands in `warnings`."""
    system = detect_system(text)
    if system is None:
        known = ", ".join(name for name, _ in TELLING)
        warning = PageWarning("unknown_system", f"no series of a system we know; known are {known}")
        return Inspection("unknown", None, _count_samples(text), (), {}, (warning,))
    reading = SystemPage(system).read(text, "page", 0.0)
    engines = sorted({(s.engine, s.model) for s in reading.samples if s.model})
    warnings = reading.warnings
    if reading.outcome != "ok":
        warnings = (*warnings, PageWarning(reading.outcome, reading.detail))
    signals = _signals(reading, system)
    poisoned = _poisoned(reading, system)
    if poisoned:
        signals |= {f"{signal}_sum": None for signal in poisoned}
        words = f"requests failed, for which vLLM observes times that never were: no mean of {', '.join(poisoned)}"
        warnings = (*warnings, PageWarning("poisoned_sums", words))
    return Inspection(
        system,
        _version(text, system),
        _count_samples(text),
        tuple(Engine(engine, model) for engine, model in engines),
        signals,
        warnings,
    )


def _version(text: str, system: System) -> str | None:
    """What wrote the page, as far as its names tell (see names/versions.py for the form)."""
    if system == "vllm":
        return versions.guess_version(page_marks(text, vllm.PREFIXES, vllm.CONFIG_INFO), versions.VLLM)
    if system != "lmcache":
        return None
    return versions.guess_version(
        page_marks(text, (*lmcache.PREFIXES, *lmcache_inprocess.PREFIXES), ""), versions.LMCACHE
    )


def _count_samples(text: str) -> int:
    return sum(1 for line in text.split("\n") if line.strip() and line.lstrip()[0] != "#")


def _signals(reading: Reading, system: System) -> dict[str, float | None]:
    values: dict[str, list[float]] = defaultdict(list)
    for sample in reading.samples:
        values[f"{sample.signal}{{{sample.label}}}" if sample.label else sample.signal].append(sample.value)
        if sample.label and sample.kind == "counter":
            values[sample.signal].append(sample.value)
    for histogram in reading.histograms:
        values[f"{histogram.signal}_count"].append(histogram.counts[-1])
        if histogram.total is not None:
            values[f"{histogram.signal}_sum"].append(histogram.total)
    signals: dict[str, float | None] = {
        name: sum(found) / (len(found) if name in MEAN_SIGNALS else 1) for name, found in values.items()
    }
    for row in (row for family in BOOKS[system].families if not family.is_optional for row in family.names):
        name = f"{row.signal}_count" if row.kind == "histogram" else row.signal
        if name not in signals and not any(known.startswith(row.signal + "{") for known in signals):
            signals[name] = None
    return dict(sorted(signals.items()))


def _poisoned(reading: Reading, system: System) -> list[str]:
    """Phase histograms whose sum means nothing: vLLM observed times that never were, for requests that failed."""
    failed = sum(s.value for s in reading.samples if s.signal == "requests_finished_total" and s.label in FAILED)
    rows = [row.signal for family in BOOKS[system].families for row in family.names if row.is_phase]
    return [row for row in rows if failed and any(h.signal == row for h in reading.histograms)]
