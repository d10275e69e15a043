"""A view in which everything is known, and one in which nothing is."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent.findings import Finding
from agent.gpu_pods import GpuPods, PodOnGpu
from agent.model import (
    Alert,
    Budget,
    Burn,
    BurnPair,
    Counts,
    Evidence,
    Figure,
    Latency,
    Recommendation,
    ReplicaWish,
    Slo,
    SloStatus,
    Snapshot,
    TargetStatus,
)
from agent.signals.model import Economics, KvTransfer, LatencyTotal, Level, ObjectStore, RouterWork, Signals, Workload
from agent.view import SignalsView
from probes.sample import HistogramSample, ProbeResult

NOW = 1_800_000_000.0
FAST = BurnPair("page", "fast", 300.0, 3600.0, 14.4)
SLOW = BurnPair("page", "slow", 1800.0, 21_600.0, 6.0)
SLO = Slo(
    "chat-ttft",
    "chat",
    "ttft",
    "engine",
    0.99,
    2_592_000.0,
    (FAST, SLOW),
    threshold_seconds=2.0,
    violated_minute_dollars=2.0,
)
COUNTS = Counts(900.0, 90.0, 10.0)
STATUS = SloStatus(
    SLO,
    "burning",
    (
        Burn(FAST, 20.0, 15.0, COUNTS, COUNTS, is_burning=True, reason="burning"),
        Burn(SLOW, 3.0, None, COUNTS, Counts(), is_burning=False, reason="no_events"),
    ),
    Budget(0.25, COUNTS, 0.1, violated_minutes=12.0),
    NOW - 5,
)
ALERT = Alert(
    (("alertname", "SLOBurnRate"), ("severity", "page"), ("tier", "fast"), ("slo", "chat-ttft"), ("service", "chat")),
    {"summary": "chat-ttft burns 15 times too fast"},
    NOW - 600,
)
ADVICE = Recommendation(
    id="r-1",
    at_seconds=NOW - 60,
    model="m",
    role="aggregated",
    action="scale",
    current=2.0,
    proposed=3.0,
    low=3.0,
    high=5.0,
    reason_code="sustained_queueing",
    binding="queue",
    summary="Scale m from 2 to 3",
    confidence=0.7,
    meets_slo=True,
    evidence=(Evidence("requests_waiting", 300.0, 12.0),),
    alternatives=(),
    do_nothing={},
    side_effects=(),
    steps=(),
    rollback="scale back",
    verify_at_seconds=NOW + 600,
)
TARGET = TargetStatus("vllm-0", "vllm", "up", NOW - 3, "ok", "", "m", "aggregated")
EXACT = Figure(0.5, 0.4, 0.6, 100.0)
LATENCY = Latency(EXACT, EXACT, EXACT, Figure(None, 10.0, None, 100.0), 0.45, 100.0)
WORKLOAD = Workload(3.0, 1.2, 0.1, 1.1, 0.9, LATENCY, LATENCY, Level(5.0, 9.0, 6.0), "none")
SIGNALS = Signals(
    300.0,
    ttft_seconds=LATENCY,
    itl_seconds=LATENCY,
    tpot_seconds=LATENCY,
    e2e_seconds=LATENCY,
    queue_seconds=LATENCY,
    canary_ttft_seconds=LATENCY,
    request_rate_per_second=2.0,
    prompt_tokens_per_second=200.0,
    generation_tokens_per_second=100.0,
    goodput_per_second=Figure(1.6, 1.5, 1.8, 600.0),
    goodput_ratio=Figure(0.8, 0.75, 0.9, 600.0),
    canary_goodput_ratio=Figure(1.0, 1.0, 1.0, 10.0),
    span_ttft_seconds=LATENCY,
    span_goodput_ratio=Figure(0.78, 0.78, 0.78, 590.0),
    span_requests=590.0,
    span_coverage_ratio=0.98,
    probe_share_ratio=0.01,
    kv_transfer=KvTransfer(LATENCY, LATENCY, 100.0, 1e11, 3e6, 0.0, 0.0, None),
    router=RouterWork(
        90.0, 5.0, {"unavailable": 5.0}, 3.0, 2.0, 5 / 95, 4.0, 9.0, 1e4, 2e4, LATENCY, LATENCY, None, LATENCY, None
    ),
    object_store=ObjectStore(100.0, 29.0, 0.29, 60.0, 0.0, 0.0, 0.5, Level(2.0, 2.0, 2.0)),
    prefix_cache_hit_ratio=0.6,
    external_cache_hit_ratio=0.0,
    cache_hit_ratio_by_tier={"disk": 0.2},
    itl_mean_seconds_by_engine={"0": 0.02, "1": 0.05},
    kv_usage_ratio=Level(0.5, 0.9, 0.4),
    requests_running=Level(8.0, 16.0, 7.0),
    requests_waiting=Level(1.0, 3.0, 0.0),
    preemptions=0.0,
    failed_ratio=0.0,
    gpu_utilization_ratio=0.9,
    power_watts=500.0,
    tokens_per_joule=0.2,
    tokens_per_dollar=60_000.0,
    workload=WORKLOAD,
    economics=Economics(11.5, EXACT, EXACT, EXACT, EXACT),
)


def histogram(
    signal: str, counts: tuple[float, ...], edges: tuple[float, ...] = (0.1, 1.0), **kwargs: object
) -> HistogramSample:
    """Cumulative counts over 0.1 s, 1 s and infinity, of engine 0."""
    given = {"engine": "0", "model": "m", "total": 6.5, **kwargs}
    return HistogramSample(signal=signal, edges=(*edges, math.inf), counts=counts, **given)


@dataclass(frozen=True)
class FakeView:
    """A view that answers what it was built with; empty when built with nothing."""

    slos: tuple[SloStatus, ...] = ()
    targets: tuple[TargetStatus, ...] = ()
    alerts: tuple[Alert, ...] = ()
    recommendations: tuple[Recommendation, ...] = ()
    events: Mapping[str, Counts] = field(default_factory=dict)
    latencies: Sequence[LatencyTotal] = ()
    probes: Sequence[ProbeResult] = ()
    by_target: Mapping[str, Signals] = field(default_factory=dict)
    total: Signals = Signals(0.0)  # noqa: RUF009  frozen
    replicas: tuple[ReplicaWish, ...] = ()
    gpus: tuple[GpuPods, ...] = ()

    def snapshot(self) -> Snapshot:
        return Snapshot(NOW - 2, self.slos, self.targets, self.alerts, self.recommendations, self.replicas)

    def signals(self, window_seconds: float) -> SignalsView:
        return SignalsView(window_seconds, self.by_target, self.total)

    def latency_totals(self) -> Sequence[LatencyTotal]:
        return self.latencies

    def event_totals(self) -> Mapping[str, Counts]:
        return self.events

    def recent_probes(self) -> Sequence[ProbeResult]:
        return self.probes

    def canary_findings(self) -> Sequence[Finding]:
        return ()

    def gpu_pods(self) -> Sequence[GpuPods]:
        return self.gpus

    def now_seconds(self) -> float:
        return NOW

    def version(self) -> str:
        return "1.2.3"


FILLED = FakeView(
    (STATUS,),
    (TARGET,),
    (ALERT,),
    (ADVICE,),
    {"chat-ttft": COUNTS},
    tuple(
        LatencyTotal("vllm-0", "engine", histogram(f"{name}_seconds", (2.0, 5.0, 6.0)))
        for name in ("ttft", "itl", "tpot", "e2e")
    ),
    by_target={"vllm-0": SIGNALS},
    total=SIGNALS,
    replicas=(ReplicaWish("m", "aggregated", 2, 3, 3, 5, 0.7, "grow"),),
    gpus=(GpuPods("gpu-0", NOW, 1.4e11, 3, 1, (PodOnGpu("uid-a", "decode-0", "serving", "vllm-0", 2, 1.3e11),)),),
    probes=(
        ProbeResult(
            "vllm-0", "kv_reuse", "ok", NOW - 30, NOW - 30, figures={"warm_ttft_seconds": 0.05, "reused_ratio": None}
        ),
    ),
)
