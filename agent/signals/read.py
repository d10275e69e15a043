"""Signals of a window: every figure people and advice look at, computed from what the windows keep, when asked for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent.model import Signals
from agent.signals.sums import Sums, add_up
from agent.stats.buckets import latency, share_over
from agent.stats.exact import exact_latency
from agent.stats.goodput import GoodputTarget, InFlight, exact_goodput, goodput_bounds, per_second
from agent.windows import Windows
from probes.sample import ProbeResult

FAILED_REASONS = ("error", "abort")  # of vLLM's finished requests; stop, length and repetition are answers
LATENCIES = ("ttft_seconds", "itl_seconds", "tpot_seconds", "e2e_seconds", "queue_seconds")
TIERS = {"l1": "cache_hit_l1_tokens_total", "l2": "cache_hit_l2_tokens_total"}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for beyond the signals that need no input.

    `thresholds` are (signal, seconds) pairs for `over_threshold_ratio`. `dollars_per_second` is what the targets
    cost together; None where no price is known.
    """

    goodput: GoodputTarget | None = None
    thresholds: Sequence[tuple[str, float]] = ()
    dollars_per_second: float | None = None


def read_signals(
    windows: Windows, start_seconds: float, end_seconds: float, targets: Iterable[str], question: Question
) -> Signals:
    """Signals of these targets together over (start_seconds, end_seconds]. What no reading says is None."""
    names = list(targets)
    sums = add_up(windows.between(start_seconds, end_seconds, names))
    probes = _probes(windows, start_seconds, end_seconds, names)
    answered = [result for result in probes if result.is_ok]
    seconds = max(sums.seconds.values(), default=0.0)
    finished = sums.by_label("requests_finished_total")
    finished_total = sum(finished.values()) if finished else None
    failed = sum(finished.get(reason, 0.0) for reason in FAILED_REASONS)
    generated, energy = sums.counter("generation_tokens_total"), sums.counter("gpu_energy_joules_total")
    in_flight = _in_flight(windows, start_seconds, end_seconds, names)
    goodput = None
    if question.goodput is not None:
        ttft, tpot = sums.histogram("ttft_seconds"), sums.histogram("tpot_seconds")
        goodput = goodput_bounds(ttft, tpot, failed, in_flight, question.goodput)
    utilization = sums.level("gpu_utilization_ratio", as_mean=True)
    steps = sums.histogram("step_tokens")
    return Signals(
        seconds=seconds,
        ttft_seconds=latency(sums.histogram("ttft_seconds")),
        itl_seconds=latency(sums.histogram("itl_seconds")),
        tpot_seconds=latency(sums.histogram("tpot_seconds")),
        e2e_seconds=latency(sums.histogram("e2e_seconds")),
        queue_seconds=latency(sums.histogram("queue_seconds")),
        canary_ttft_seconds=exact_latency([r.ttft_seconds for r in answered if r.ttft_seconds is not None]),
        canary_itl_seconds=exact_latency([gap for r in answered for gap in r.itl_gaps_seconds]),
        canary_tpot_seconds=exact_latency([r.tpot_seconds for r in answered if r.tpot_seconds is not None]),
        canary_e2e_seconds=exact_latency([r.e2e_seconds for r in answered if r.e2e_seconds is not None]),
        over_threshold_ratio={
            f"{signal}>{threshold:g}": share_over(buckets, threshold) if (buckets := sums.histogram(signal)) else None
            for signal, threshold in question.thresholds
        },
        request_rate_per_second=_ratio(finished_total, seconds),
        prompt_tokens_per_second=_ratio(sums.counter("prompt_tokens_total"), seconds),
        generation_tokens_per_second=_ratio(generated, seconds),
        prompt_tokens=sums.counter("prompt_tokens_total"),
        generation_tokens=generated,
        requests_finished=finished_total,
        requests_finished_by_reason=finished,
        goodput_per_second=per_second(goodput, seconds),
        goodput_ratio=goodput,
        canary_goodput_ratio=exact_goodput(probes, question.goodput) if question.goodput else None,
        canaries=float(len(probes)) if probes else None,
        canaries_failed=float(len(probes) - len(answered)) if probes else None,
        probe_share_ratio=min(1.0, len(answered) / finished_total) if finished_total else None,
        prefix_cache_hit_ratio=_hit_ratio(sums, "prefix_cache"),
        external_cache_hit_ratio=_hit_ratio(sums, "external_cache"),
        cache_hit_ratio_by_tier=_tier_ratios(sums),
        kv_usage_ratio=sums.level("kv_usage_ratio", as_mean=True),
        requests_running=sums.level("requests_running"),
        requests_waiting=sums.level("requests_waiting"),
        preemptions=sums.counter("preemptions_total"),
        engine_steps=None if steps is None else steps.count,
        failed_ratio=_ratio(failed, finished_total),
        gpu_utilization_ratio=None if utilization is None else utilization.mean,
        power_watts=_power_watts(sums),
        tokens_per_joule=_ratio(generated, energy),
        tokens_per_dollar=None
        if question.dollars_per_second is None
        else _ratio(generated, question.dollars_per_second * seconds),
    )


def _probes(windows: Windows, start: float, end: float, names: Sequence[str]) -> list[ProbeResult]:
    """Canary results of the window that say something about the service."""
    return [
        result
        for name in names
        for result in windows.probes.get(name, ())
        if start < result.at_seconds <= end and result.reached_user_service
    ]


def _in_flight(windows: Windows, start: float, end: float, names: Sequence[str]) -> InFlight:
    """Requests running at the edges: of the last reading before the window (or a first one in it), and of the last."""
    at_start: float | None = None
    at_end: float | None = None
    for key, increments in windows.increments.items():
        if key.target not in names or key.source != "vllm":
            continue
        inside = [i for i in increments if start < i.to_seconds <= end]
        before = [i for i in increments if i.to_seconds <= start]
        first = before[-1] if before else next((i for i in inside if i.from_seconds == i.to_seconds), None)
        last = inside[-1] if inside else None
        if first is None or last is None:
            return InFlight(None, None)
        at_start = _plus(at_start, first.gauges.get(("requests_running", "")))
        at_end = _plus(at_end, last.gauges.get(("requests_running", "")))
    return InFlight(at_start, at_end)


def _plus(so_far: float | None, more: float | None) -> float | None:
    return more if so_far is None or more is None else so_far + more


def _ratio(part: float | None, whole: float | None) -> float | None:
    """part / whole; unknown when either is, and when there is no whole."""
    return part / whole if part is not None and whole else None


def _hit_ratio(sums: Sums, cache: str) -> float | None:
    return _ratio(sums.counter(f"{cache}_hit_tokens_total"), sums.counter(f"{cache}_queried_tokens_total"))


def _tier_ratios(sums: Sums) -> Mapping[str, float]:
    """LMCache's hit ratio by tier, over the tokens it was asked for."""
    asked = sums.counter("cache_lookup_tokens_total")
    ratios = {tier: _ratio(sums.counter(signal), asked) for tier, signal in TIERS.items()}
    return {tier: ratio for tier, ratio in ratios.items() if ratio is not None}


def _power_watts(sums: Sums) -> float | None:
    """Mean power of all GPUs together: counted energy over its time, else the mean of the power readings."""
    energy, seconds = sums.counter("gpu_energy_joules_total"), sums.covered_seconds("nvml")
    if energy is not None and seconds:
        return energy / seconds
    power = sums.level("gpu_power_watts")
    return None if power is None else power.mean
