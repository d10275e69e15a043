"""What request spans told: exact figures of single requests, by target and time, for an hour.

Spans are kept as sketches and counts per ten seconds, so that memory is bounded whatever the traffic is. Our own
canaries are left out of users' figures and count in the coverage alone.
"""

import math
from collections import defaultdict, deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import accumulate

from agent.canary_log import EDGES
from agent.model import Figure, Latency
from agent.signals.model import LatencyTotal, Signals
from agent.stats.goodput import GoodputTarget
from agent.stats.interval import rank_interval, share_interval
from probes.sample import HistogramSample
from probes.spans.coverage import coverage
from probes.spans.result import SpanResult
from probes.spans.sketch import LatencySketch

SLOT_SECONDS = 10.0
KEEP_SECONDS = 3_700.0
NOBODYS = "unknown"  # the target of spans that name none we watch
SIGNALS = ("ttft_seconds", "tpot_seconds", "e2e_seconds")


@dataclass(slots=True)
class _Slot:
    number: int
    sketches: dict[str, LatencySketch] = field(default_factory=lambda: defaultdict(LatencySketch))
    spans: int = 0
    requests: int = 0
    good: int = 0
    bad: int = 0
    unsure: int = 0


def attributed(spans: Iterable[SpanResult], targets: Collection[str]) -> list[SpanResult]:
    """The spans under the names of the targets they are of: what their resource says, their pod, or the only target
    there is; NOBODYS where none of these is one.
    """
    lone = next(iter(targets)) if len(targets) == 1 else NOBODYS
    found = []
    for span in spans:
        name = span.target if span.target in targets else span.pod if span.pod in targets else lone
        found.append(span if span.target == name else replace(span, target=name))
    return found


class SpanLog:
    """Spans of the last hour."""

    def __init__(self, keep_seconds: float = KEEP_SECONDS) -> None:
        self.keep_seconds = keep_seconds
        self.is_listening = False  # then a target that sends no span has a coverage of 0, not an unknown one
        self._slots: dict[str, deque[_Slot]] = defaultdict(deque)
        self._totals: dict[tuple[str, str, str], list[float]] = {}

    def take(self, spans: Iterable[SpanResult], goodput: GoodputTarget | None, now_seconds: float) -> None:
        """Keep finished requests of the targets that they name (see `attributed`)."""
        for span in spans:
            ended = span.end_at_seconds if span.end_at_seconds is not None else now_seconds
            self._count(self._slot(span.target, min(ended, now_seconds), now_seconds), span.target, span, goodput)

    def add_to(self, signals: Signals, start_seconds: float, end_seconds: float, targets: Iterable[str]) -> Signals:
        """The signals with what spans say over the same window, at most one slot short of it; without spans, as given.

        Coverage compares the spans with the requests that the engines' counters say have finished (canaries included).
        """
        slots = [
            slot
            for name in targets
            for slot in self._slots.get(name, ())
            if start_seconds <= slot.number * SLOT_SECONDS < end_seconds
        ]
        if not slots and not self.is_listening:
            return signals
        spans = sum(slot.spans for slot in slots)
        if not slots:
            return replace(signals, span_coverage_ratio=coverage(spans, signals.requests_finished))
        good, bad = sum(slot.good for slot in slots), sum(slot.bad for slot in slots)
        ttft, tpot, e2e = (_latency(_merged(slot.sketches[signal] for slot in slots)) for signal in SIGNALS)
        return replace(
            signals,
            span_ttft_seconds=ttft,
            span_tpot_seconds=tpot,
            span_e2e_seconds=e2e,
            span_goodput_ratio=_goodput(good, bad, sum(slot.unsure for slot in slots)),
            span_requests=float(sum(slot.requests for slot in slots)),
            span_coverage_ratio=coverage(spans, signals.requests_finished),
        )

    def totals(self) -> list[LatencyTotal]:
        """One histogram per target, model and latency since the start."""
        return [
            LatencyTotal(target, "span", HistogramSample(signal, "", model, EDGES[signal], counts, total))
            for (target, model, signal), (total, *buckets) in self._totals.items()
            for counts in [tuple(accumulate(buckets))]
        ]

    def _slot(self, name: str, at_seconds: float, now_seconds: float) -> _Slot:
        """The slot of a moment; a moment older than the newest slot but one goes into that one's neighbour."""
        slots, number = self._slots[name], math.floor(at_seconds / SLOT_SECONDS)
        while slots and slots[0].number * SLOT_SECONDS < now_seconds - self.keep_seconds:
            slots.popleft()
        for slot in reversed(slots):
            if slot.number <= number:
                if slot.number == number:
                    return slot
                break
        slots.append(_Slot(number))
        self._slots[name] = deque(sorted(slots, key=lambda slot: slot.number))
        return next(slot for slot in self._slots[name] if slot.number == number)

    def _count(self, slot: _Slot, name: str, span: SpanResult, goodput: GoodputTarget | None) -> None:
        slot.spans += 1
        if span.is_canary:
            return
        slot.requests += 1
        if goodput is not None:
            verdict = span.keeps(goodput.ttft_seconds, goodput.tpot_seconds)
            slot.good += verdict is True
            slot.bad += verdict is False
            slot.unsure += verdict is None
        if not span.is_ok:
            return
        for signal in SIGNALS:
            seconds = getattr(span, signal)
            if seconds is not None:
                slot.sketches[signal].add(seconds)
                self._observe((name, span.model, signal), seconds)

    def _observe(self, place: tuple[str, str, str], seconds: float) -> None:
        edges = EDGES[place[2]]
        row = self._totals.setdefault(place, [0.0] * (len(edges) + 1))
        row[0] += seconds
        row[1 + next(index for index, edge in enumerate(edges) if seconds <= edge)] += 1


def _merged(sketches: Iterable[LatencySketch]) -> LatencySketch:
    whole = LatencySketch()
    for sketch in sketches:
        if sketch.count:
            whole.merge(sketch)
    return whole


def _latency(sketch: LatencySketch) -> Latency | None:
    if not sketch.count:
        return None
    p50, p90, p95, p99 = (_percentile(sketch, quantile) for quantile in (0.50, 0.90, 0.95, 0.99))
    return Latency(p50, p90, p95, p99, sketch.mean_seconds, sketch.count)


def _percentile(sketch: LatencySketch, quantile: float) -> Figure | None:
    bounds = sketch.bounds(quantile)
    if bounds is None:
        return None
    low, high = bounds
    ranks = rank_interval(quantile, sketch.count)
    ci_low, ci_high = (
        None if rank is None else sketch.bounds(min(1.0, rank / max(1, sketch.count - 1))) for rank in ranks
    )
    return Figure(
        (low + high) / 2, low, high, sketch.count, ci_low[0] if ci_low else None, ci_high[1] if ci_high else None
    )


def _goodput(good: int, bad: int, unsure: int) -> Figure | None:
    """The share of good requests; those no span could judge widen it on both sides. None where nobody asked."""
    requests = good + bad + unsure
    if not requests:
        return None
    low, high = good / requests, (good + unsure) / requests
    return Figure(None if unsure else low, low, high, requests, *share_interval(low, high, requests))
