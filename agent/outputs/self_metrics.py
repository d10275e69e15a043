"""What the agent tells about its own work: looks, canaries, ticks, deliveries."""

import threading
from collections.abc import Iterator

from prometheus_client.core import Metric as Family
from prometheus_client.registry import CollectorRegistry

from agent.outputs import metric_table as table
from agent.outputs.metric_table import Metric
from agent.outputs.points import AnyPoint, Point, presentable
from agent.outputs.prometheus import empty_families, families
from probes.sample import ProbeResult, Reading
from probes.spans.counts import SpanCounts


class SelfMetrics:
    """Counters and last values, kept as points of the metric table so that Prometheus and OTLP show the same.

    Every method may be called from any thread and never fails or waits.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lock = threading.Lock()
        self._values: dict[tuple[Metric, tuple[str, ...]], float] = {}
        self._spans: SpanCounts | None = None
        registry.register(self)

    def configured(self, version: str, config_hash: str) -> None:
        """A config was loaded; replaces the one before."""
        with self._lock:
            self._values = {key: value for key, value in self._values.items() if key[0] is not table.CONFIG_INFO}
            self._values[table.CONFIG_INFO, (version, config_hash)] = 1.0

    def scraped(self, reading: Reading) -> None:
        """A look at a metrics page ended, well or not."""
        self._add(table.SCRAPES, (reading.target, reading.outcome))
        self._set(table.SCRAPE_DURATION, (reading.target,), reading.duration_seconds)
        if reading.body_bytes:
            self._set(table.PAGE_BYTES, (reading.target,), float(reading.body_bytes))
        for warning in reading.warnings:
            self._add(table.PAGE_WARNINGS, (reading.target, warning.code))

    def probed(self, result: ProbeResult) -> None:
        """A canary ended, was missed or skipped."""
        self._add(table.PROBES, (result.target, result.kind, result.outcome))

    def ticked(self, step: str, duration_seconds: float) -> None:
        """One step of a tick took so long."""
        self._set(table.TICK_DURATION, (step,), duration_seconds)

    def delivered(self, output: str, outcome: str) -> None:
        """An output took something ("ok") or did not; `outcome` is a short reason from a closed set."""
        self._add(table.DELIVERIES, (output, outcome))

    def job_planned(self, job: str) -> None:
        """A periodic job was set up; until a run is skipped its count is a known 0."""
        with self._lock:
            self._values.setdefault((table.MISSED_JOBS, (job,)), 0.0)

    def job_missed(self, job: str) -> None:
        """A run of a periodic job was skipped."""
        self._add(table.MISSED_JOBS, (job,))

    def loop_lagged(self, lag_seconds: float) -> None:
        """The event loop woke a timer so late."""
        self._set(table.LOOP_LAG, (), lag_seconds)

    def watch_spans(self, counts: SpanCounts) -> None:
        """Tell from now on what the span receiver counts of itself."""
        self._spans = counts

    def forget_target(self, target: str) -> None:
        """A target is no longer watched: its series end."""
        with self._lock:
            self._values = {key: value for key, value in self._values.items() if not _is_about(key, target)}

    def points(self) -> list[AnyPoint]:
        """Everything as it is now."""
        with self._lock:
            own: list[AnyPoint] = [Point(metric, labels, value) for (metric, labels), value in self._values.items()]
        return own if self._spans is None else [*own, *_span_points(self._spans)]

    def describe(self) -> Iterator[Family]:
        """The families that can appear, for the registry's check of names."""
        return empty_families(table.SELF_METRICS)

    def collect(self) -> Iterator[Family]:
        """Families with at least one series, in the order of the table."""
        rank = {metric: place for place, metric in enumerate(table.SELF_METRICS)}
        return families(presentable(sorted(self.points(), key=lambda point: rank[point.metric])))

    def _add(self, metric: Metric, labels: tuple[str, ...]) -> None:
        with self._lock:
            self._values[metric, labels] = self._values.get((metric, labels), 0.0) + 1.0

    def _set(self, metric: Metric, labels: tuple[str, ...], value: float) -> None:
        with self._lock:
            self._values[metric, labels] = value


def _span_points(counts: SpanCounts) -> Iterator[AnyPoint]:
    results = {"request": counts.requests, "canary": counts.canaries, "repeated": counts.repeated}
    for result, count in {**results, "other": counts.others.total()}.items():
        yield Point(table.SPANS, (result,), float(count))
    for metric, counter in (
        (table.SPAN_EXPORTS, counts.bodies),
        (table.SPAN_REFUSALS, counts.refused),
        (table.SPANS_LOST, counts.lost),
        (table.SPAN_FORWARDS, counts.forwarded),
    ):
        for word, count in list(counter.items()):
            yield Point(metric, (word,), float(count))


def _is_about(key: tuple[Metric, tuple[str, ...]], target: str) -> bool:
    metric, labels = key
    return "target" in metric.labels and labels[metric.labels.index("target")] == target
