"""What the agent knows, as points of the metric table. Unknown gives no point: never 0, never NaN."""

from collections.abc import Iterator, Sequence
from typing import get_args

from agent.model import Alert, Figure, Latency, SloState, SloStatus, TargetStatus
from agent.outputs import metric_table as table
from agent.outputs.advice_points import advice_points
from agent.outputs.metric_table import ALL_TARGETS, Metric
from agent.outputs.neighbour_points import neighbour_points
from agent.outputs.points import AnyPoint, HistogramPoint, Point
from agent.signals.model import Economics, LatencyTotal, Level, Signals, Workload
from agent.view import View
from probes.sample import ProbeResult

WINDOWS = {"1m": 60.0, "5m": 300.0, "1h": 3600.0}
SIGNALS = ("ttft", "itl", "tpot", "e2e", "queue", "canary_ttft", "canary_itl", "canary_tpot", "canary_e2e")
PERCENTILES = ("p50", "p90", "p95", "p99")
HEALTHS = ("up", "stale", "down", "stuck", "unknown")
SILENCES = ("idle", "rolling_out", "down", "blind", "insufficient")
HISTOGRAMS = {
    "ttft_seconds": table.TTFT,
    "itl_seconds": table.ITL,
    "tpot_seconds": table.TPOT,
    "e2e_seconds": table.E2E,
}


def view_points(view: View, *, with_aliases: bool = False) -> Iterator[AnyPoint]:
    """Every point that `view` can give now; may hold duplicates (`presentable` takes them out).

    With aliases the replicas to have stand under the names of other autoscalers, too.
    """
    snapshot = view.snapshot()
    totals = view.event_totals()
    for status in snapshot.slos:
        yield from _slo_points(status)
        if counts := totals.get(status.slo.name):
            labels = (status.slo.name, status.slo.service, status.slo.model or "")
            yield Point(table.EVENTS, (*labels, "good"), counts.good)
            yield Point(table.EVENTS, (*labels, "bad"), counts.bad)
            yield Point(table.EVENTS, (*labels, "unknown"), counts.undecided)
    yield from _alert_points(snapshot.alerts)
    yield from _histogram_points(view.latency_totals())
    yield from _canary_points(view.recent_probes())
    yield from _window_points(view)
    yield from _gpu_points(view)
    yield from advice_points(snapshot, with_aliases=with_aliases)
    for target in snapshot.targets:
        yield from _target_points(target, view.now_seconds())
    if snapshot.at_seconds > 0:
        yield Point(table.TICK_AGE, (), max(0.0, view.now_seconds() - snapshot.at_seconds))


def window_label(seconds: float) -> str:
    """A window as Prometheus writes durations: 300 -> 5m, 5400 -> 90m, 86400 -> 1d."""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:g}s"


def _slo_points(status: SloStatus) -> Iterator[Point]:
    slo = status.slo
    yield Point(table.OBJECTIVE, (slo.name,), slo.objective_ratio)
    yield from _known(table.BUDGET, (slo.name,), status.budget.remaining_ratio)
    yield Point(table.COVERAGE, (slo.name,), status.budget.coverage_ratio)
    if (minutes := status.budget.violated_minutes) is not None:
        yield Point(table.VIOLATED, (slo.name,), 60 * minutes)
        if slo.violated_minute_dollars is not None:
            yield Point(table.VIOLATION_DOLLARS, (slo.name,), minutes * slo.violated_minute_dollars)
    for state in get_args(SloState):
        yield Point(table.SLO_STATE, (slo.name, state), float(state == status.state))
    for reason in SILENCES:
        yield Point(
            table.SLO_SILENCE, (slo.name, reason), float(status.silence is not None and status.silence.reason == reason)
        )
    for burn in status.burns:
        pair = burn.pair
        yield from _known(table.BURN_RATE, (slo.name, window_label(pair.short_seconds)), burn.short_rate)
        yield from _known(table.BURN_RATE, (slo.name, window_label(pair.long_seconds)), burn.long_rate)
        yield Point(table.BURN_FACTOR, (slo.name, pair.severity, pair.tier), pair.factor)
        yield Point(table.BURNING, (slo.name, pair.severity, pair.tier), float(burn.is_burning))


def _alert_points(alerts: Sequence[Alert]) -> Iterator[Point]:
    firing = [dict(alert.labels) for alert in alerts if alert.is_firing]
    for labels in firing:
        yield Point(table.ALERT_FIRING, tuple(labels.get(name, "") for name in table.ALERT_FIRING.labels), 1.0)
    for severity in ("page", "ticket"):
        count = sum(labels.get("severity") == severity for labels in firing)
        yield Point(table.ALERTS_FIRING, (severity,), float(count))


def _histogram_points(totals: Sequence[LatencyTotal]) -> Iterator[HistogramPoint]:
    """Engines of one target are added up; where their buckets differ, at the edges that all of them have."""
    groups: dict[tuple[str, tuple[str, ...]], list[LatencyTotal]] = {}
    for total in totals:
        if total.histogram.signal in HISTOGRAMS:
            key = (total.histogram.signal, (total.target, total.histogram.model, total.source))
            groups.setdefault(key, []).append(total)
    for (signal, labels), group in groups.items():
        by_edge = [dict(zip(one.histogram.edges, one.histogram.counts, strict=True)) for one in group]
        edges = tuple(sorted(set(by_edge[0]).intersection(*by_edge[1:])))
        counts = tuple(sum(one[edge] for one in by_edge) for edge in edges)
        sums = [one.histogram.total for one in group if one.histogram.total is not None]
        total_sum = sum(sums) if len(sums) == len(group) else None
        yield HistogramPoint(HISTOGRAMS[signal], labels, edges, counts, total_sum)


def _canary_points(results: Sequence[ProbeResult]) -> Iterator[Point]:
    """The figures of the newest good canary of each kind; `results` are newest first."""
    told: set[tuple[str, str]] = set()
    for result in results:
        place = (result.target, result.kind)
        if result.is_ok and place not in told:
            told.add(place)
            for name, value in result.figures.items():
                yield from _known(table.CANARY_FIGURE, (*place, name), value)


def _window_points(view: View) -> Iterator[Point]:
    for window, seconds in WINDOWS.items():
        signals = view.signals(seconds)
        together = {ALL_TARGETS: signals.total}
        for target, one in {**together, **signals.targets}.items():
            yield from _rate_points(target, window, one)
            yield from _latency_points(target, window, one, with_percentiles=target == ALL_TARGETS or window == "5m")
            yield from neighbour_points(target, window, one)
            if window == "1m":
                yield from _level(table.KV_USAGE, target, one.kv_usage_ratio)
                yield from _level(table.RUNNING, target, one.requests_running)
                yield from _level(table.WAITING, target, one.requests_waiting)
            if window == "5m":
                for engine, mean in one.itl_mean_seconds_by_engine.items():
                    yield Point(table.ENGINE_ITL, (target, engine), mean)
                yield from _known(table.GPU, (target,), one.gpu_utilization_ratio)
                yield from _known(table.POWER, (target,), one.power_watts)
                yield from _known(table.PER_JOULE, (target,), one.tokens_per_joule)
                yield from _known(table.PER_DOLLAR, (target,), one.tokens_per_dollar)
                yield from _known(table.SPAN_COVERAGE, (target,), one.span_coverage_ratio)
        yield from _arrival_points(window, signals.total)
        if window == "5m":
            yield from _overall_points(signals.total)
            yield from _money_points(signals.total.economics)
            yield from _request_points(signals.total.workload)


def _gpu_points(view: View) -> Iterator[Point]:
    for gpu in view.gpu_pods():
        for one in gpu.pods:
            yield from _known(table.GPU_POD, (gpu.gpu, one.namespace, one.pod, one.uid), one.memory_bytes)


def _rate_points(target: str, window: str, signals: Signals) -> Iterator[Point]:
    yield Point(table.COVERED, (target, window), signals.seconds)
    yield from _known(table.REQUEST_RATE, (target, window), signals.request_rate_per_second)
    yield from _known(table.PROMPT_RATE, (target, window), signals.prompt_tokens_per_second)
    yield from _known(table.GENERATION_RATE, (target, window), signals.generation_tokens_per_second)
    yield from _known(table.FAILED, (target, window), signals.failed_ratio)
    yield from _known(table.PREEMPTIONS, (target, window), signals.preemptions)


def _latency_points(target: str, window: str, signals: Signals, *, with_percentiles: bool) -> Iterator[Point]:
    for signal in SIGNALS:
        latency: Latency | None = getattr(signals, f"{signal}_seconds")
        if latency is None:
            continue
        yield from _known(table.MEAN, (target, signal, window), latency.mean)
        for percentile in PERCENTILES if with_percentiles else ():
            yield from _figure(table.PERCENTILE, (target, signal, percentile, window), getattr(latency, percentile))


def _overall_points(signals: Signals) -> Iterator[Point]:
    yield from _figure(table.GOODPUT_RATIO, (), signals.goodput_ratio)
    yield from _figure(table.GOODPUT, (), signals.goodput_per_second)
    yield from _figure(table.CANARY_GOODPUT, (), signals.canary_goodput_ratio)
    yield from _figure(table.SPAN_GOODPUT, (), signals.span_goodput_ratio)
    yield from _known(table.PROBE_SHARE, (), signals.probe_share_ratio)
    yield from _known(table.KV_HIT, ("prefix",), signals.prefix_cache_hit_ratio)
    yield from _known(table.KV_HIT, ("external",), signals.external_cache_hit_ratio)
    for tier, ratio in signals.cache_hit_ratio_by_tier.items():
        yield Point(table.KV_HIT, (tier,), ratio)


def _arrival_points(window: str, signals: Signals) -> Iterator[Point]:
    if (load := signals.workload) is not None:
        yield from _known(table.ARRIVALS, (window,), load.arrivals_per_second)
        yield from _known(table.BURSTINESS, (window,), load.arrival_burstiness)
        if window == "1h":
            yield from _known(table.TREND, (), load.arrival_trend_ratio_per_hour)


def _request_points(load: Workload | None) -> Iterator[Point]:
    if load is None:
        return
    for part, tokens in (("prompt", load.prompt_tokens), ("output", load.output_tokens)):
        for percentile in PERCENTILES if tokens else ():
            yield from _figure(table.REQUEST_TOKENS, (part, percentile), getattr(tokens, percentile))
    if load.concurrency is not None:
        yield Point(table.CONCURRENCY, (), load.concurrency.last)


def _money_points(money: Economics | None) -> Iterator[Point]:
    if money is not None:
        yield from _known(table.DOLLARS, (), money.dollars_per_hour)
        yield from _figure(table.GOODPUT_PER_DOLLAR, (), money.goodput_per_dollar)
        yield from _figure(table.USER_SPEED, ("median",), money.tokens_per_second_per_user)
        yield from _figure(table.USER_SPEED, ("slowest",), money.tokens_per_second_of_slowest_users)


def _target_points(target: TargetStatus, now_seconds: float) -> Iterator[Point]:
    if target.health not in ("stale", "unknown"):
        yield Point(table.TARGET_UP, (target.name,), float(target.health == "up"))
    for health in HEALTHS:
        yield Point(table.TARGET_HEALTH, (target.name, health), float(health == target.health))
    if target.last_seen_seconds is not None:
        yield Point(table.READING_AGE, (target.name,), max(0.0, now_seconds - target.last_seen_seconds))


def _known(metric: Metric, labels: tuple[str, ...], value: float | None) -> Iterator[Point]:
    if value is not None:
        yield Point(metric, labels, value)


def _level(metric: Metric, target: str, level: Level | None) -> Iterator[Point]:
    if level is not None:
        yield Point(metric, (target,), level.last)


def _figure(metric: Metric, labels: tuple[str, ...], figure: Figure | None) -> Iterator[Point]:
    if figure is not None:
        yield from _known(metric, (*labels, "value"), figure.value)
        yield from _known(metric, (*labels, "low"), figure.low)
        yield from _known(metric, (*labels, "high"), figure.high)
