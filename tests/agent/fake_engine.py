"""A vLLM engine that does what a test says, and the readings and pages that it then gives."""

import bisect
import math
from dataclasses import dataclass, field
from itertools import accumulate

from probes.sample import HistogramSample, Reading, Sample

EDGES = (0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 300.0, math.inf)
NAMES = {
    "ttft_seconds": "vllm:time_to_first_token_seconds",
    "itl_seconds": "vllm:inter_token_latency_seconds",
    "tpot_seconds": "vllm:request_time_per_output_token_seconds",
    "e2e_seconds": "vllm:e2e_request_latency_seconds",
    "queue_seconds": "vllm:request_queue_time_seconds",
    "step_tokens": "vllm:iteration_tokens_total",
}


@dataclass(slots=True)
class FakeEngine:
    """One engine behind one page."""

    target: str = "vllm-0"
    model: str = "m"
    engine: str = "0"
    started_at_seconds: float | None = None
    running: float = 0.0
    waiting: float = 0.0
    kv_usage: float = 0.5
    generated: float = 0.0
    preemptions: float = 0.0
    finished: dict[str, float] = field(default_factory=lambda: {"stop": 0.0, "error": 0.0, "abort": 0.0})
    counts: dict[str, list[float]] = field(default_factory=lambda: {name: [0.0] * len(EDGES) for name in NAMES})
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(NAMES, 0.0))

    def observe(self, signal: str, seconds: float, times: float = 1) -> None:
        """So many observations of one histogram."""
        self.counts[signal][bisect.bisect_left(EDGES, seconds)] += times
        self.sums[signal] += seconds * times

    def finish(self, times: float, e2e: float = 1.0, ttft: float = 0.2, tpot: float = 0.02, why: str = "stop") -> None:
        """So many requests, each of 10 tokens, begun and ended."""
        self.finished[why] += times
        self.generated += 10 * times
        self.observe("e2e_seconds", e2e, times)
        self.observe("ttft_seconds", ttft, times)
        self.observe("tpot_seconds", tpot, times)
        self.observe("step_tokens", 10, times)

    def samples(self) -> tuple[Sample, ...]:
        """Gauges and counters as a page reader gives them."""
        gauges = {"requests_running": self.running, "requests_waiting": self.waiting, "kv_usage_ratio": self.kv_usage}
        counters = {"generation_tokens_total": self.generated, "preemptions_total": self.preemptions}
        return (
            *(Sample(name, "gauge", self.engine, self.model, value) for name, value in gauges.items()),
            *(Sample(name, "counter", self.engine, self.model, value) for name, value in counters.items()),
            *(
                Sample("requests_finished_total", "counter", self.engine, self.model, value, label)
                for label, value in self.finished.items()
            ),
        )

    def histograms(self) -> tuple[HistogramSample, ...]:
        """All histograms as a page reader gives them."""
        return tuple(
            HistogramSample(name, self.engine, self.model, EDGES, tuple(accumulate(counts)), self.sums[name])
            for name, counts in self.counts.items()
        )

    def reading(self, at_seconds: float) -> Reading:
        """What a look at its page brings at this moment."""
        return page_of([self], at_seconds)

    def page(self) -> str:
        """The page itself, in vLLM's words."""
        labels = f'engine="{self.engine}",model_name="{self.model}"'
        lines = [
            f"vllm:num_requests_running{{{labels}}} {self.running}",
            f"vllm:num_requests_waiting{{{labels}}} {self.waiting}",
            f"vllm:kv_cache_usage_perc{{{labels}}} {self.kv_usage}",
            f"vllm:generation_tokens_total{{{labels}}} {self.generated}",
            f"vllm:num_preemptions_total{{{labels}}} {self.preemptions}",
        ]
        lines += [
            f'vllm:request_success_total{{{labels},finished_reason="{why}"}} {count}'
            for why, count in self.finished.items()
        ]
        for name, counts in self.counts.items():
            lines += [
                f'{NAMES[name]}_bucket{{{labels},le="{"+Inf" if math.isinf(edge) else edge}"}} {count}'
                for edge, count in zip(EDGES, accumulate(counts), strict=True)
            ]
            lines.append(f"{NAMES[name]}_count{{{labels}}} {sum(counts)}")
            lines.append(f"{NAMES[name]}_sum{{{labels}}} {self.sums[name]}")
        if self.started_at_seconds is not None:
            lines.append(f"process_start_time_seconds {self.started_at_seconds}")
        return "\n".join(lines) + "\n"


def page_of(engines: list[FakeEngine], at_seconds: float) -> Reading:
    """One page that shows several engines."""
    return Reading(
        engines[0].target,
        "vllm",
        at_seconds,
        samples=tuple(sample for engine in engines for sample in engine.samples()),
        histograms=tuple(histogram for engine in engines for histogram in engine.histograms()),
        process_start_seconds=engines[0].started_at_seconds,
    )


def no_page(at_seconds: float, target: str = "vllm-0", outcome: str = "timeout") -> Reading:
    """A look that brought nothing."""
    return Reading(target, "vllm", at_seconds, outcome, "no page within 5 s")
