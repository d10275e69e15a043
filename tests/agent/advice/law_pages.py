"""Pages of an engine that keeps the step-time law exactly, for rules that look at an hour or at five minutes of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.advice.scene import Scene
from agent.burn_windows import standard_pairs
from agent.model import Budget, Counts, Slo, SloStatus, TargetStatus
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.windows import Windows
from probes.engine_args import engine_args
from probes.names.vllm import DEFAULT_EDGES
from probes.sample import HistogramSample, Reading, Sample

T0 = 1_800_000_000.0
GAP = 10.0  # between two readings
PREFILL, SEQUENCE, KV = 25e-6, 40e-6, 30e-9
MONTH = 30 * 86_400.0


def promise(sli: str, seconds: float, ratio: float = 0.95) -> SloStatus:
    """An SLO of the engine, about which nothing was counted yet."""
    slo = Slo(sli, "chat", sli, "engine", ratio, MONTH, standard_pairs(MONTH), seconds)  # type: ignore[arg-type]
    return SloStatus(slo, "ok", (), Budget(None, Counts(), 0.0), None)


@dataclass(slots=True)
class LawEngine:
    """One target and what its page has counted so far. `kv` is its cache in tokens, `prompt` and `answer` are tokens of
    a request, and `overhead` is the base of a step in seconds. Of `without` its page has no counter.
    """

    name: str = "vllm-0"
    role: str = "aggregated"
    kv: float = 500_000.0
    prompt: float = 1_000.0
    answer: float = 200.0
    overhead: float = 5e-3
    args: str = ""
    settings: tuple[str, ...] = ()
    url: str = "http://vllm-0:8000"
    without: tuple[str, ...] = ()
    windows: Windows = field(default_factory=Windows)
    at: float = T0
    _sums: dict[tuple[str, str], float] = field(default_factory=dict)
    _seen: dict[str, list[float]] = field(default_factory=dict)

    def run(
        self,
        seconds: float,
        running: float,
        waiting: float = 0.0,
        usage: float | None = None,
        more: Mapping[str, float] | None = None,
        first_tokens: float = 0.5,
    ) -> None:
        """Serve so many at once for a while. `more` are rises of further counters in every reading, `first_tokens` is
        how long a request waited for its first one.
        """
        until = self.at + seconds
        while self.at < until:
            self.at += GAP
            step = self.overhead + SEQUENCE * running + KV * running * (self.prompt + self.answer / 2)
            requests = GAP * running / (self.answer * step + running * self.prompt * PREFILL)
            steps = requests * self.answer / running
            for name, rise in {
                "generation_tokens_total": requests * self.answer,
                "prompt_tokens_total": requests * self.prompt,
                "preemptions_total": 0.0,
                **(more or {}),
            }.items():
                if name not in self.without:
                    self._rise(name, "", rise)
            self._rise("prompt_tokens_by_source_total", "local_compute", requests * self.prompt)
            self._rise("requests_finished_total", "length", requests)
            self._see("itl_seconds", step, steps * running)
            self._see("tpot_seconds", GAP / steps, requests)
            self._see("ttft_seconds", first_tokens, requests)
            self._see("step_tokens", running, steps)
            resident = running * (self.prompt + self.answer / 2) / self.kv
            self.windows.take(self._page(running, waiting, resident if usage is None else usage))

    def scene(self, *promises: SloStatus, plan: Plan | None = None) -> Scene:
        """What the rules look at now."""
        status = TargetStatus(self.name, "vllm", "up", self.at, "ok", "", "m", self.role)
        facts = TargetFacts("m", self.role, None, url=self.url, engine_args=engine_args(self.args)[0])
        return Scene(plan or Plan(targets={self.name: facts}), [status], promises, self.windows, self.at)

    def _rise(self, signal: str, label: str, by: float) -> None:
        self._sums[signal, label] = self._sums.get((signal, label), 0.0) + by

    def _see(self, signal: str, value: float, count: float) -> None:
        edges = EDGES[signal]
        counts = self._seen.setdefault(signal, [0.0] * (len(edges) + 1))
        for place, edge in enumerate(edges):
            counts[place] += count if value <= edge else 0.0
        counts[-1] += count
        self._rise(f"{signal}_sum", "", value * count)

    def _page(self, running: float, waiting: float, usage: float) -> Reading:
        gauges = {
            ("requests_running", ""): running,
            ("requests_waiting", ""): waiting,
            ("requests_waiting_by_reason", "capacity"): waiting,
            ("kv_usage_ratio", ""): usage,
            ("kv_capacity_tokens", ""): self.kv,
            **{("engine_setting", setting): 1.0 for setting in self.settings},
        }
        counters = {place: value for place, value in self._sums.items() if not place[0].endswith("_sum")}
        return Reading(
            self.name,
            "vllm",
            self.at,
            samples=(
                *(Sample(signal, "gauge", "0", "m", value, label) for (signal, label), value in gauges.items()),
                *(Sample(signal, "counter", "0", "m", value, label) for (signal, label), value in counters.items()),
            ),
            histograms=tuple(
                HistogramSample(
                    signal, "0", "m", (*EDGES[signal], math.inf), tuple(counts), self._sums[f"{signal}_sum", ""]
                )
                for signal, counts in self._seen.items()
            ),
        )


EDGES = {
    **{signal: DEFAULT_EDGES[signal] for signal in ("ttft_seconds", "itl_seconds", "tpot_seconds")},
    "step_tokens": (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0),
}
