"""Measured values on their way out: one point is one series of one metric at this moment."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from agent.outputs.metric_table import MAX_SERIES_PER_METRIC, SERIES_DROPPED, Metric


@dataclass(frozen=True, slots=True)
class Point:
    """A number of a counter or gauge; `labels` are the values of `metric.labels`, in their order."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True)
class HistogramPoint:
    """A histogram: `counts[i]` observations were <= `edges[i]`, the last edge is infinite. `total` is their sum."""

    metric: Metric
    labels: tuple[str, ...]
    edges: tuple[float, ...]
    counts: tuple[float, ...]
    total: float | None


AnyPoint = Point | HistogramPoint


def presentable(points: Iterable[AnyPoint], max_series: int = MAX_SERIES_PER_METRIC) -> list[AnyPoint]:
    """The points that may leave: each series once (the first), only finite values, no metric with too many series.

    What was cut is told by points of `slo_agent_series_dropped`, which are absent when nothing was.
    """
    kept: dict[tuple[str, tuple[str, ...]], AnyPoint] = {}
    series: dict[str, int] = {}
    for point in points:
        key = (point.metric.name, point.labels)
        if key in kept or (isinstance(point, Point) and not math.isfinite(point.value)):
            continue
        series[point.metric.name] = series.get(point.metric.name, 0) + 1
        if series[point.metric.name] <= max_series:
            kept[key] = point
    excess = {name: count - max_series for name, count in series.items() if count > max_series}
    return [*kept.values(), *(Point(SERIES_DROPPED, (name,), float(count)) for name, count in excess.items())]
