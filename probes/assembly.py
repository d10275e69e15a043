"""From the numbers of a page to samples and histograms.

Which numbers make which sample depends on the series alone, and those are the same at nearly every look: the plan is
made once for a set of series, and a look then only fills it in.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from probes.names.table import Name
from probes.place import SETTING, Place
from probes.sample import HistogramSample, Sample

MOST_RATIO = 1.1  # what counts blocks while they change hands may be off by so much
MOST = 1e30  # no number that is counted or measured is larger, and sums and products of such stay finite
Key = tuple[str, str, str, str]  # signal, engine, model, label


@dataclass(frozen=True, slots=True)
class Assembled:
    """What a page says. `odd_histograms` are those without a +Inf bucket, or whose counts fall; `over_one` are ratios
    above 1, `too_large` numbers beyond 1e30.
    """

    samples: tuple[Sample, ...]
    histograms: tuple[HistogramSample, ...]
    process_start_seconds: float | None
    odd_histograms: int
    over_one: int = 0
    too_large: int = 0


@dataclass(frozen=True, slots=True)
class _Series:
    """One histogram series: numbers of its buckets by ascending edge, and of its sum."""

    edges: tuple[float, ...]
    buckets: tuple[int, ...]
    total: int | None


@dataclass(slots=True)
class Plan:
    """Which numbers of a page make which sample. Numbers are named by their place's index."""

    start: int | None = None
    samples: list[tuple[Key, Name, tuple[int, ...], float | None]] = field(default_factory=list)
    histograms: list[tuple[Key, Name, tuple[_Series, ...]]] = field(default_factory=list)
    _kept: dict[int, Sample] = field(default_factory=dict)  # by place in `samples`: most are the same at the next look

    def fill(self, values: Mapping[int, float]) -> Assembled:
        """The page's samples. A negative number is a sentinel such as -1: not known, for nothing we read can be one.
        Nor is a number that nothing can have reached.

        A ratio a little above 1 is 1; one far above it is another unit, and unknown.
        """
        samples, over_one, too_large = [], 0, 0
        for number, ((signal, engine, model, label), row, ids, fixed) in enumerate(self.samples):
            if fixed is not None:
                value = fixed
            elif len(ids) == 1:
                value = values[ids[0]] * row.scale
            else:
                known = [values[id_] for id_ in ids if values[id_] >= 0]
                value = (max(known) if row.over == "max" else sum(known)) * row.scale if known else -1.0
            if not 0 <= value <= MOST:
                too_large += value > 0
                continue
            if value > 1 and row.unit == "ratio":
                over_one += 1
                if value > MOST_RATIO:
                    continue
                value = 1.0
            kept = self._kept.get(number)
            if kept is None or kept.value != value:
                kind: Literal["counter", "gauge"] = "counter" if row.kind == "counter" else "gauge"
                kept = self._kept[number] = Sample(signal, kind, engine, model, value, label)
            samples.append(kept)
        histograms, odd, endless = self._histograms(values)
        start = None if self.start is None else values[self.start]
        return Assembled(tuple(samples), histograms, start, odd, over_one, too_large + endless)

    def _histograms(self, values: Mapping[int, float]) -> tuple[tuple[HistogramSample, ...], int, int]:
        """The page's histograms, how many are odd, and how many too large."""
        histograms, odd, too_large = [], 0, 0
        for (signal, engine, model, label), row, parts in self.histograms:
            found = [part for part in (_filled(series, values, row.scale) for series in parts) if part is not None]
            odd += len(parts) - len(found)
            alike = [part for part in found if part[0] == found[0][0]]
            if alike:
                edges, counts, total = _together(alike)
                if counts[-1] > MOST or (total or 0.0) > MOST:
                    too_large += 1
                    continue
                histograms.append(HistogramSample(signal, engine, model, edges, counts, total, label))
                odd += len(found) - len(alike)
        return tuple(histograms), odd, too_large


_Filled = tuple[tuple[float, ...], tuple[float, ...], float | None]


def _filled(series: _Series, values: Mapping[int, float], scale: float) -> _Filled | None:
    """(edges, counts, total), or None: without +Inf, negative or falling it is no histogram."""
    counts = tuple(map(values.__getitem__, series.buckets))
    if series.edges[-1] != math.inf or counts[0] < 0 or counts != tuple(sorted(counts)):
        return None
    return series.edges, counts, None if series.total is None else values[series.total] * scale


def _together(parts: Sequence[_Filled]) -> _Filled:
    """Histograms of the same edges, bucket by bucket."""
    if len(parts) == 1:
        return parts[0]
    totals = [total for _, _, total in parts if total is not None]
    counts = tuple(map(sum, zip(*(counts for _, counts, _ in parts), strict=True)))
    return parts[0][0], counts, sum(totals) if len(totals) == len(parts) else None


def make_plan(places: Mapping[int, Place]) -> Plan:
    """The plan for a page with these series."""
    plan = Plan()
    front_ends = _front_ends(places)
    best: dict[tuple[str, str, str], int] = {}
    for place in places.values():
        if place.row:
            who = (place.row.signal, place.engine, place.model)
            best[who] = min(best.get(who, place.rank), place.rank)
            nobody = (place.row.signal, place.engine, "")  # of a model's other names one may lack the model
            best[nobody] = min(best.get(nobody, place.rank), place.rank)
    models = _models(places, front_ends)
    single: dict[Key, tuple[Name, list[int], float | None]] = {}
    buckets: dict[tuple[Key, str], dict[float, int]] = defaultdict(dict)
    totals: dict[tuple[Key, str], int] = {}
    rows: dict[Key, Name] = {}
    for id_, place in places.items():
        if place.row is None:
            plan.start = id_
            continue
        if place.rank != best[place.row.signal, place.engine, place.model]:
            continue
        engine = place.engine or front_ends.get(place.model) or front_ends[""]
        model = place.model or models.get(engine, "")
        full = (place.row.signal, engine, model, place.label)
        if place.part == "value":
            single.setdefault(full, (place.row, [], place.fixed))[1].append(id_)
        elif place.part == "bucket":
            rows[full] = place.row
            buckets[full, place.series][place.edge] = id_
        else:
            totals[full, place.series] = id_
    for key, (row, ids, fixed) in single.items():
        plan.samples.append((key, row, tuple(ids), fixed))
    plan.samples += _settings(places, front_ends, models)
    by_key: dict[Key, list[_Series]] = defaultdict(list)
    for (key, name), by_edge in buckets.items():
        edges = tuple(sorted(by_edge))
        by_key[key].append(_Series(edges, tuple(by_edge[edge] for edge in edges), totals.get((key, name))))
    plan.histograms = [(key, rows[key], tuple(series)) for key, series in by_key.items()]
    return plan


def _settings(
    places: Mapping[int, Place], front_ends: Mapping[str, str], models: Mapping[str, str]
) -> Iterator[tuple[Key, Name, tuple[int, ...], float]]:
    """What labels of info series say by themselves."""
    for id_, place in places.items():
        engine = place.engine or front_ends[""]
        for setting in place.settings:
            yield (SETTING.signal, engine, models.get(engine, ""), setting), SETTING, (id_,), 1.0


def _front_ends(places: Mapping[int, Place]) -> dict[str, str]:
    """By model, and under "" for the page: the first engine, which takes what is counted for all engines together.

    A page without engine labels is of one engine, "0".
    """
    engines: dict[str, set[str]] = defaultdict(set)
    for place in places.values():
        if place.engine:
            engines[place.model].add(place.engine)
            engines[""].add(place.engine)
    first = {model: min(known, key=lambda engine: (len(engine), engine)) for model, known in engines.items()}
    return {"": "0"} | first


def _models(places: Mapping[int, Place], front_ends: Mapping[str, str]) -> dict[str, str]:
    """The model of each engine that has just one: for the KV capacity, which has no model label."""
    models: dict[str, set[str]] = defaultdict(set)
    for place in places.values():
        if place.model and place.row and place.part == "value":
            models[place.engine or front_ends.get(place.model) or front_ends[""]].add(place.model)
    return {engine: next(iter(known)) for engine, known in models.items() if len(known) == 1}
