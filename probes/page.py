"""From a metrics page to a `Reading`: one reader per target, with its cache of series."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from probes.exposition import PageParser, PageValues
from probes.names import lmcache, vllm
from probes.names.table import Name
from probes.sample import HistogramSample, PageWarning, Reading, Sample

System = Literal["vllm", "lmcache"]
PROCESS_START = "process_start_time_seconds"


class Place(NamedTuple):
    """Where a number of a page belongs. `rank` is the name's place in its row: the lowest present one counts."""

    signal: str
    kind: Literal["counter", "gauge", "histogram"]
    engine: str
    model: str
    label: str
    part: Literal["value", "bucket", "sum", "start"]
    edge: float
    rank: int


@dataclass(frozen=True, slots=True)
class Book:
    """How to read one system's pages."""

    system: System
    prefixes: tuple[str, ...]
    names: tuple[Name, ...]
    engine_label: str
    model_label: str
    needed: str  # a page of this system always has this signal


BOOKS: Mapping[System, Book] = {
    "vllm": Book("vllm", vllm.PREFIXES, vllm.NAMES, vllm.ENGINE_LABEL, vllm.MODEL_LABEL, "generation_tokens_total"),
    "lmcache": Book("lmcache", lmcache.PREFIXES, lmcache.NAMES, "", lmcache.MODEL_LABEL, "cache_usage_ratio"),
}


class SystemPage:
    """Reads the pages of one target of a known system."""

    def __init__(self, system: System) -> None:
        self._book = BOOKS[system]
        self._rows = {
            exposed: (row, rank)
            for row in self._book.names
            for rank, name in enumerate(row.names)
            for exposed in _exposed(row, name)
        }
        self._parser: PageParser[Place] = PageParser(self._place, self._needs)

    def read(self, text: str, target: str, at_seconds: float) -> Reading:
        """Everything our signals need from `text`; what is missing or odd stands in `warnings`."""
        page = self._parser.parse(text)
        samples, histograms, start, odd = _assemble(page.values)
        warnings = _warnings(page, odd)
        if not any(sample.signal == self._book.needed for sample in samples):
            return Reading(
                target,
                self._book.system,
                at_seconds,
                outcome="not_" + self._book.system,
                detail=f"the page has {page.series} series, but none that gives {self._book.needed}; "
                f"is this a {self._book.system} server, and are its metrics on?",
                warnings=warnings,
                body_bytes=len(text),
            )
        return Reading(
            target,
            self._book.system,
            at_seconds,
            samples=samples,
            histograms=histograms,
            process_start_seconds=start,
            warnings=warnings,
            body_bytes=len(text),
        )

    def _needs(self, exposed: str) -> bool:
        bare = self._bare(exposed)
        return exposed == PROCESS_START or bare in self._rows or bare == vllm.CONFIG_INFO

    def _bare(self, exposed: str) -> str | None:
        return next((exposed[len(p) :] for p in self._book.prefixes if exposed.startswith(p)), None)

    def _place(self, exposed: str, labels: Mapping[str, str]) -> Place | None:
        if exposed == PROCESS_START:
            return Place(exposed, "gauge", "", "", "", "start", 0.0, 0)
        bare = self._bare(exposed)
        if bare is None:
            return None
        engine = labels.get(self._book.engine_label, "") if self._book.engine_label else ""
        model = labels.get(self._book.model_label, "")
        if bare == vllm.CONFIG_INFO and self._book.system == "vllm":
            return _capacity_place(labels, engine)
        row_and_rank = self._rows.get(bare)
        return None if row_and_rank is None else _row_place(*row_and_rank, bare, labels, engine, model)


def _row_place(row: Name, rank: int, bare: str, labels: Mapping[str, str], engine: str, model: str) -> Place | None:
    """The place of a series of a names table; None for a bucket whose edge is no number."""
    label = labels.get(row.label, "") if row.label else ""
    if row.kind != "histogram":
        return Place(row.signal, row.kind, engine, model, label, "value", 0.0, rank)
    if bare.endswith("_sum"):
        return Place(row.signal, row.kind, engine, model, label, "sum", 0.0, rank)
    edge = _edge(labels.get("le", ""))
    return None if edge is None else Place(row.signal, row.kind, engine, model, label, "bucket", edge, rank)


def _exposed(row: Name, name: str) -> tuple[str, ...]:
    return (f"{name}_bucket", f"{name}_sum") if row.kind == "histogram" else (name,)


def _edge(text: str) -> float | None:
    try:
        edge = float(text)
    except ValueError:
        return None
    return None if math.isnan(edge) else edge


def _capacity_place(labels: Mapping[str, str], engine: str) -> Place | None:
    """KV capacity in tokens stands in labels; `edge` carries it, the sample's own value is a constant 1."""
    size = labels.get("kv_cache_size_tokens", "")
    blocks, block_size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
    try:
        tokens = float(size) if size not in ("", "None") else float(blocks) * float(block_size)
    except ValueError:
        return None
    return Place("kv_capacity_tokens", "gauge", engine, "", "", "value", tokens, 0) if math.isfinite(tokens) else None


def _assemble(
    values: Mapping[Place, float],
) -> tuple[tuple[Sample, ...], tuple[HistogramSample, ...], float | None, int]:
    """Samples, histograms, the process's start (unix seconds), and how many histograms were none."""
    front_ends = _front_ends(values)
    best: dict[tuple[str, str, str], int] = {}
    for place in values:
        key = (place.signal, place.engine, place.model)
        best[key] = min(best.get(key, place.rank), place.rank)
    samples: list[Sample] = []
    buckets: dict[tuple[str, str, str, str], dict[float, float]] = defaultdict(dict)
    sums: dict[tuple[str, str, str, str], float] = {}
    start: float | None = None
    for place, value in values.items():
        engine = place.engine or front_ends.get(place.model) or front_ends[""]
        if place.part == "start":
            start = value
        elif place.rank != best[place.signal, place.engine, place.model]:
            continue
        elif place.part == "value":
            true_value = place.edge if place.signal == "kv_capacity_tokens" else value
            if true_value < 0:
                continue  # a sentinel such as -1: not known; nothing we read can be negative
            kind: Literal["counter", "gauge"] = "counter" if place.kind == "counter" else "gauge"
            samples.append(Sample(place.signal, kind, engine, place.model, true_value, place.label))
        elif place.part == "bucket":
            buckets[place.signal, engine, place.model, place.label][place.edge] = value
        else:
            sums[place.signal, engine, place.model, place.label] = value
    histograms = tuple(_histograms(buckets, sums))
    return _name_models(samples), histograms, start, len(buckets) - len(histograms)


def _front_ends(values: Mapping[Place, float]) -> dict[str, str]:
    """By model, and under "" for the page: the first engine, which takes what is counted for all engines together.

    A page without engine labels is of one engine, "0".
    """
    engines: dict[str, set[str]] = defaultdict(set)
    for place in values:
        if place.engine:
            engines[place.model].add(place.engine)
            engines[""].add(place.engine)
    first = {model: min(known, key=lambda engine: (len(engine), engine)) for model, known in engines.items()}
    return {"": "0"} | first


def _name_models(samples: list[Sample]) -> tuple[Sample, ...]:
    """The KV capacity has no model label: it takes the model of its engine where there is just one."""
    models: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        if sample.model:
            models[sample.engine].add(sample.model)
    return tuple(
        replace(sample, model=next(iter(models[sample.engine])))
        if not sample.model and len(models[sample.engine]) == 1
        else sample
        for sample in samples
    )


def _histograms(
    buckets: Mapping[tuple[str, str, str, str], Mapping[float, float]], sums: Mapping[tuple[str, str, str, str], float]
) -> list[HistogramSample]:
    found = []
    for key, by_edge in buckets.items():
        edges = tuple(sorted(by_edge))
        counts = tuple(by_edge[edge] for edge in edges)
        if edges[-1] != math.inf or counts[0] < 0 or any(b < a for a, b in pairwise(counts)):
            continue  # without +Inf, negative or falling: no histogram
        signal, engine, model, label = key
        found.append(HistogramSample(signal, engine, model, edges, counts, sums.get(key), label))
    return found


def _warnings(page: PageValues[Place], odd_histograms: int) -> tuple[PageWarning, ...]:
    told = (
        ("malformed", page.malformed, "lines could not be read"),
        ("not_finite", page.not_finite, "values were NaN or infinite and count as unknown"),
        ("duplicates", page.duplicates, "series were given twice; the first counts"),
        ("dropped_series", page.dropped_series, "series were beyond the limit and not read"),
        ("odd_histograms", odd_histograms, "histograms lack their +Inf bucket or fall; they count as unknown"),
    )
    return tuple(PageWarning(code, f"{count} {words}") for code, count, words in told if count)
