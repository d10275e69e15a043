"""The agent's page for Prometheus, made from the view at every scrape."""

import math
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import Metric as Family
from prometheus_client.registry import CollectorRegistry

from agent.outputs.metric_table import VIEW_METRICS, Metric
from agent.outputs.points import AnyPoint, HistogramPoint, presentable
from agent.outputs.view_points import view_points
from agent.view import View


class ViewCollector:
    """Reads the view whenever the registry is scraped; holds nothing itself."""

    def __init__(self, view: View, registry: CollectorRegistry, *, with_aliases: bool = False) -> None:
        self._view = view
        self._with_aliases = with_aliases
        registry.register(self)

    def describe(self) -> Iterator[Family]:
        """The families that can appear, for the registry's check of names."""
        return empty_families(VIEW_METRICS)

    def collect(self) -> Iterator[Family]:
        """Families with at least one series."""
        return families(presentable(view_points(self._view, with_aliases=self._with_aliases)))


def empty_families(metrics: Sequence[Metric]) -> Iterator[Family]:
    """One family without samples per row of the table."""
    for metric in metrics:
        yield _family(metric)


def families(points: Iterable[AnyPoint]) -> Iterator[Family]:
    """The points by metric, in the order in which their metrics first appear."""
    found: dict[str, Family] = {}
    for point in points:
        family = found.setdefault(point.metric.name, _family(point.metric))
        labels = dict(zip(point.metric.labels, point.labels, strict=True))
        if isinstance(point, HistogramPoint):
            _add_histogram(family, point, labels)
        else:
            family.add_sample(point.metric.name, labels, point.value)
    yield from found.values()


def _family(metric: Metric) -> Family:
    name = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
    return Family(name, metric.help, metric.kind)


def _add_histogram(family: Family, point: HistogramPoint, labels: dict[str, str]) -> None:
    """Without a known sum there is no `_sum`: an average of it would be wrong."""
    for edge, count in zip(point.edges, point.counts, strict=True):
        le = "+Inf" if math.isinf(edge) else str(float(edge))  # 1 as 1.0: two spellings would be two buckets
        family.add_sample(f"{point.metric.name}_bucket", {**labels, "le": le}, count)
    family.add_sample(f"{point.metric.name}_count", labels, point.counts[-1])
    if point.total is not None:
        family.add_sample(f"{point.metric.name}_sum", labels, point.total)
