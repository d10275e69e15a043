"""A running agent that never ran: fixed, realistic data for the API and the page, and a way to change it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fake_signals import fleet, idle, overloaded
from fake_world import NOW_SECONDS, advice, alerts, probes, slos, targets

from agent.findings import Finding
from agent.gpu_pods import GpuPods
from agent.model import Counts, Slo, SloStatus, Snapshot
from agent.signals.model import LatencyTotal, Signals
from agent.view import SignalsView
from probes.sample import ProbeResult


@dataclass(slots=True)
class FakeView:
    """`agent.view.View` over plain values; a test sets what it wants to see."""

    snapshot_now: Snapshot
    by_target: Mapping[str, Signals] = field(default_factory=dict)
    total: Signals = field(default_factory=lambda: Signals(seconds=0.0))
    probe_results: Sequence[ProbeResult] = ()
    clock_seconds: float = NOW_SECONDS
    findings: Sequence[Finding] = ()
    gpus: Sequence[GpuPods] = ()

    def snapshot(self) -> Snapshot:
        return self.snapshot_now

    def signals(self, window_seconds: float) -> SignalsView:
        return SignalsView(window_seconds, self.by_target, self.total)

    def latency_totals(self) -> Sequence[LatencyTotal]:
        return ()

    def event_totals(self) -> Mapping[str, Counts]:
        return {}

    def recent_probes(self) -> Sequence[ProbeResult]:
        return self.probe_results

    def canary_findings(self) -> Sequence[Finding]:
        return self.findings

    def gpu_pods(self) -> Sequence[GpuPods]:
        return self.gpus

    def now_seconds(self) -> float:
        return self.clock_seconds

    def version(self) -> str:
        return "0.1.0"


def burning() -> FakeView:
    """A bad night: chat-ttft burns and paged 2 min ago, one target is stuck, one stale, one SLO has no data."""
    snapshot = Snapshot(NOW_SECONDS - 2.0, slos(), targets(), alerts(), advice())
    by_target = {"vllm-0": overloaded(), "vllm-1": idle(), "vllm-2": Signals(seconds=0.0)}
    return FakeView(snapshot, by_target, fleet(), probes())


def calm() -> FakeView:
    """Everything is kept, nobody was told anything."""
    view = burning()
    kept = tuple(replace(status, state="ok", burns=_quiet(status)) for status in slos()[1:4])
    up = tuple(replace(target, health="up", last_outcome="ok", detail="") for target in targets()[:2])
    view.snapshot_now = Snapshot(NOW_SECONDS - 2.0, kept, up, alerts()[-1:], ())
    view.by_target = {"vllm-0": overloaded(), "vllm-1": idle()}
    view.probe_results = [probe for probe in probes() if probe.is_ok]
    return view


def starting() -> FakeView:
    """Before the first tick."""
    return FakeView(Snapshot(0.0, (), (), (), ()))


def hostile() -> FakeView:
    """The bad night, with a name out of each untrusted place made to break out of a page."""
    view = burning()
    snapshot = view.snapshot_now
    evil_target = replace(snapshot.targets[0], name=EVIL, model=EVIL, detail=EVIL, labels={EVIL: EVIL})
    evil_slo = replace(snapshot.slos[0], slo=_renamed(snapshot.slos[0].slo))
    links = {"runbook_url": "javascript:window.hacked=1", "dashboard_url": 'http://x"onmouseover=window.hacked=1'}
    evil_alert = replace(snapshot.alerts[0], annotations={"summary": EVIL, "cause": EVIL, **links})
    evil_advice = replace(snapshot.recommendations[0], summary=EVIL, steps=(EVIL,), alternatives=({EVIL: EVIL},))
    view.snapshot_now = replace(
        snapshot, slos=(evil_slo,), targets=(evil_target,), alerts=(evil_alert,), recommendations=(evil_advice,)
    )
    view.by_target = {EVIL: overloaded(), "__proto__": idle()}
    view.probe_results = [replace(probe, target=EVIL, detail=EVIL, outcome=EVIL) for probe in probes()]
    return view


EVIL = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'>&lt;{{7*7}}"


def _renamed(slo: Slo) -> Slo:
    return replace(slo, name=EVIL, service=EVIL, model=EVIL)


def _quiet(status: SloStatus) -> tuple:
    return tuple(
        replace(burn, short_rate=0.2, long_rate=0.3, is_burning=False, reason="within_budget") for burn in status.burns
    )
