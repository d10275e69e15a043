"""The running agent as outputs and the page see it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as installed_version
from itertools import accumulate

from agent.canary_log import CanaryLog
from agent.config import Config
from agent.findings import Finding, Place, findings
from agent.gpu_pods import GpuPods, gpu_pods
from agent.model import Counts, Snapshot
from agent.plan import Plan
from agent.planning import energy_price
from agent.signals.model import LatencyTotal
from agent.signals.read import Question, read_each_and_all
from agent.signals.sources import with_sources
from agent.span_log import NOBODYS, SpanLog
from agent.stats.goodput import GoodputTarget
from agent.stats.time_buckets import TimeBuckets
from agent.tick import Memory
from agent.view import SignalsView
from probes.clock import Clock
from probes.sample import HistogramSample, ProbeResult
from probes.spans.result import SpanResult

EVERY_REQUEST = ("availability", "e2e", "ttft")
SHOWN = ("ttft_seconds", "itl_seconds", "tpot_seconds", "e2e_seconds")


@dataclass(slots=True)
class LivingView:
    """Implements `View` on the agent's memory."""

    config: Config
    plan: Plan
    memory: Memory
    clock: Clock
    canaries: CanaryLog = field(default_factory=CanaryLog)
    spans: SpanLog = field(default_factory=SpanLog)
    last: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        return self.last or Snapshot(0.0, (), (), (), ())

    def signals(self, window_seconds: float) -> SignalsView:
        now, windows = self.now_seconds(), self.memory.windows
        names = [*self.plan.targets, *(n for n, log in windows.targets.items() if log.source == "nvml")]
        start = now - window_seconds
        questions = {name: self._question([name]) for name in names}
        found, total = read_each_and_all(windows, start, now, questions, self._question(list(self.plan.targets)))
        each = {name: with_sources(self.spans.add_to(one, start, now, [name])) for name, one in found.items()}
        whole = with_sources(self.spans.add_to(total, start, now, [*names, NOBODYS]))
        return SignalsView(window_seconds, each, whole)

    def take_spans(self, spans: Sequence[SpanResult]) -> None:
        """Keep finished requests of targets; judged by the goodput that the config asks for now."""
        goodput = GoodputTarget(self.config.goodput.ttft_seconds, self.config.goodput.tpot_seconds)
        self.spans.take(spans, goodput, self.now_seconds())

    def latency_totals(self) -> Sequence[LatencyTotal]:
        windows = self.memory.windows
        rows = [
            *(("engine", place, total) for place, total in windows.totals.items()),
            *(("contribution_low", place, ours.low) for place, ours in windows.own_totals.items()),
            *(("contribution_high", place, ours.high) for place, ours in windows.own_totals.items()),
        ]
        engines = [
            LatencyTotal(
                key.target,
                source,
                HistogramSample(signal, key.engine, key.model, b.edges, tuple(accumulate(b.counts)), b.total),
            )
            for source, (key, signal), b in rows
            if signal in SHOWN
        ]
        return [*engines, *self.canaries.totals(), *self.spans.totals()]

    def event_totals(self) -> Mapping[str, Counts]:
        return {slo.name: self.memory.windows.events[slo.name].total() for slo in self.plan.slos}

    def recent_probes(self) -> Sequence[ProbeResult]:
        return self.canaries.recent()

    def canary_findings(self) -> Sequence[Finding]:
        goodput, targets = self.config.goodput, self.plan.targets
        places = {name: Place(facts.service or "", facts.labels.get("vantage", "")) for name, facts in targets.items()}
        return findings(self.canaries.recent(), places, goodput.ttft_seconds, goodput.tpot_seconds)

    def gpu_pods(self) -> Sequence[GpuPods]:
        return gpu_pods(self.memory.windows, self.plan.targets)

    def now_seconds(self) -> float:
        return self.clock.now_seconds()

    def version(self) -> str:
        return installed_version("vllm-slo-agent")

    def _question(self, names: Sequence[str]) -> Question:
        goodput = GoodputTarget(self.config.goodput.ttft_seconds, self.config.goodput.tpot_seconds)
        targets = self.memory.roles.applied(self.plan.targets, self.memory.windows)
        rates = [targets[name].dollars_per_second for name in names if name in targets]
        known = [rate for rate in rates if rate is not None]
        cost = sum(known) if known and len(known) == len(rates) else None
        requests = self._requests() if len(rates) == len(self.plan.targets) else None
        roles = {name: targets[name].role for name in names if name in targets}
        return Question(goodput, (), cost, roles, energy=energy_price(self.config), requests=requests)

    def _requests(self) -> TimeBuckets | None:
        """The events of an SLO that counts every request of every engine, for comparing with days before."""
        for slo in self.plan.slos:
            is_every = slo.source == "engine" and slo.sli in EVERY_REQUEST and slo.slice_seconds is None
            if is_every and slo.model is None and slo.role is None:
                return self.memory.windows.events.get(slo.name)
        return None
