"""Points in the form of OpenTelemetry's data model, under the same names as for Prometheus."""

from collections.abc import Iterable

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtlpMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from agent.outputs.metric_table import Metric
from agent.outputs.points import AnyPoint, HistogramPoint, Point

SCOPE = InstrumentationScope("slo_agent")
CUMULATIVE = AggregationTemporality.CUMULATIVE


def metrics_data(
    points: Iterable[AnyPoint], resource: Resource, started_at_seconds: float, at_seconds: float
) -> MetricsData:
    """One export. Counters and histograms count since `started_at_seconds`; stamps are unix seconds.

    Built from the data model and not by instruments: the SDK has none for a histogram that is counted elsewhere, and
    a series that is unknown now has to be absent now.
    """
    numbers: dict[Metric, list[NumberDataPoint]] = {}
    histograms: dict[Metric, list[HistogramDataPoint]] = {}
    start, now = int(started_at_seconds * 1e9), int(at_seconds * 1e9)
    for point in points:
        if isinstance(point, HistogramPoint):
            histograms.setdefault(point.metric, []).append(_histogram_point(point, start, now))
        else:
            numbers.setdefault(point.metric, []).append(_number_point(point, start, now))
    metrics = [_metric(metric, _number_data(metric, found)) for metric, found in numbers.items()]
    metrics += [_metric(metric, Histogram(found, CUMULATIVE)) for metric, found in histograms.items()]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(SCOPE, metrics, "")], "")])


def _metric(metric: Metric, data: Gauge | Sum | Histogram) -> OtlpMetric:
    """A plain count has no unit: translators to Prometheus would append `_ratio` for a 1."""
    unit = "" if metric.unit == "1" and not metric.name.endswith("_ratio") else metric.unit
    return OtlpMetric(metric.name, metric.help, unit, data)


def _number_data(metric: Metric, points: list[NumberDataPoint]) -> Gauge | Sum:
    return Sum(points, CUMULATIVE, is_monotonic=True) if metric.kind == "counter" else Gauge(points)


def _number_point(point: Point, start: int, now: int) -> NumberDataPoint:
    return NumberDataPoint(_attributes(point), start if point.metric.kind == "counter" else 0, now, point.value)


def _histogram_point(point: HistogramPoint, start: int, now: int) -> HistogramDataPoint:
    """OpenTelemetry wants the count of every bucket by itself, and no infinite edge."""
    counts = [round(count) for count in point.counts]
    each = [count - before for count, before in zip(counts, [0, *counts], strict=False)]
    return HistogramDataPoint(
        attributes=_attributes(point),
        start_time_unix_nano=start,
        time_unix_nano=now,
        count=counts[-1],
        sum=point.total,  # type: ignore[arg-type]  # optional in the protocol: not known
        bucket_counts=each,
        explicit_bounds=point.edges[:-1],
        min=None,  # type: ignore[arg-type]  # optional in the protocol: a cumulative histogram has none
        max=None,  # type: ignore[arg-type]  # as min
    )


def _attributes(point: AnyPoint) -> dict[str, str]:
    return dict(zip(point.metric.labels, point.labels, strict=True))
