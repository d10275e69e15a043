"""Signals of a window: every figure people and advice look at, computed from what the windows keep, when asked for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.model import Figure, Latency
from agent.signals.economics import Energy, cost_per_second, economics
from agent.signals.gathered import Gather, gather
from agent.signals.model import Signals
from agent.signals.pd import as_one_service, read_pools
from agent.signals.ranks import itl_mean_by_engine
from agent.signals.routing import object_store, router_work
from agent.signals.sums import Sums
from agent.signals.transfer import kv_transfer
from agent.signals.workload import workload
from agent.stats.between import figure_between, latency_between, share_over_between
from agent.stats.exact import exact_latency
from agent.stats.goodput import GoodputTarget, exact_goodput, goodput_bounds, per_second
from agent.stats.time_buckets import TimeBuckets
from agent.windows import Windows
from probes.canary.outcomes import is_bad
from probes.sample import ProbeResult
from probes.systems import ENGINES, GPUS

FAILED_REASONS = ("error", "abort")  # of vLLM's finished requests; stop, length and repetition are answers
LATENCIES = ("ttft_seconds", "itl_seconds", "tpot_seconds", "e2e_seconds", "queue_seconds")
TIERS = {"l1": "cache_hit_l1_tokens_total", "l2": "cache_hit_l2_tokens_total"}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for beyond the signals that need no input.

    `thresholds` are (signal, seconds) pairs for `over_threshold_ratio`. `dollars_per_second` is what the targets
    cost together; None where no price is known. `roles` are those of the targets that prefill or decode. `energy` is
    the price of electricity, where it is paid apart. `requests` are the events of an SLO that counts every request, for
    comparing with days before.
    """

    goodput: GoodputTarget | None = None
    thresholds: Sequence[tuple[str, float]] = ()
    dollars_per_second: float | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    energy: Energy | None = None
    requests: TimeBuckets | None = None


def read_signals(
    windows: Windows, start_seconds: float, end_seconds: float, targets: Iterable[str], question: Question
) -> Signals:
    """Signals of these targets together over (start_seconds, end_seconds]. What no reading says is None.

    Prefill and decode instances among them are one service: a request that both saw counts once.
    """
    seen = gather(windows, start_seconds, end_seconds)
    return _together(windows, start_seconds, end_seconds, list(targets), question, seen)


def read_each_and_all(
    windows: Windows,
    start_seconds: float,
    end_seconds: float,
    questions: Mapping[str, Question],
    question: Question,
) -> tuple[dict[str, Signals], Signals]:
    """`read_signals` of every target with its own question, and of all together; each is read once for both."""
    seen = gather(windows, start_seconds, end_seconds)
    each = {name: _together(windows, start_seconds, end_seconds, [name], own, seen) for name, own in questions.items()}
    return each, _together(windows, start_seconds, end_seconds, list(questions), question, seen)


def _together(
    windows: Windows, start_seconds: float, end_seconds: float, names: list[str], question: Question, seen: Gather
) -> Signals:
    found = _added_up(windows, start_seconds, end_seconds, names, question, seen)
    prefill, decode = ([name for name in names if question.roles.get(name) == role] for role in ("prefill", "decode"))
    if not prefill or not decode:
        return _without_artefacts(found, bool(prefill), bool(decode))
    served = _added_up(windows, start_seconds, end_seconds, [n for n in names if n not in prefill], question, seen)
    pools = read_pools(windows.between(start_seconds, end_seconds, names), prefill, decode)
    return as_one_service(found, served, pools, question.thresholds)


def _without_artefacts(signals: Signals, prefills: bool, decodes: bool) -> Signals:  # noqa: FBT001  two plain facts
    """What an instance of one half alone shows by construction: 0 s a token, and a cache that has every prompt."""
    if prefills:
        return replace(signals, tpot_seconds=None)
    return replace(signals, external_cache_hit_ratio=None) if decodes else signals


def _added_up(
    windows: Windows, start_seconds: float, end_seconds: float, names: list[str], question: Question, seen: Gather
) -> Signals:
    """What each target saw, added up.

    Requests, tokens and latencies are the users': what was found of our canaries is not among them.
    """
    gathered = seen(names)
    increments, sums = gathered.increments, gathered.sums
    probes = _probes(windows, start_seconds, end_seconds, names)
    answered = [result for result in probes if result.is_ok]
    timed = [result for result in answered if result.is_timed_well]
    seconds = sums.covered_seconds(*ENGINES)
    finished = sums.users_by_label("requests_finished_total")
    finished_total = sum(finished.values()) if finished else None
    failed = sum(finished.get(reason, 0.0) for reason in FAILED_REASONS) if finished else None
    generated, prompted = sums.users_counter("generation_tokens_total"), sums.users_counter("prompt_tokens_total")
    energy = sums.counter("gpu_energy_joules_total")
    generated_per_second = _ratio(generated, seconds)
    goodput = None
    if question.goodput is not None:
        before = _came_before(windows, start_seconds, end_seconds, names)
        goodput = _goodput(sums, failed, before, question.goodput)
    utilization = sums.level("gpu_utilization_ratio", as_mean=True)
    steps = sums.histogram("step_tokens")
    tpot, watts = latency_between(sums.users_histogram("tpot_seconds")), _power_watts(sums)
    good = per_second(goodput, seconds)
    return Signals(
        seconds=max((sums.covered_seconds(source) for source in sums.spans), default=0.0),
        ttft_seconds=latency_between(sums.users_histogram("ttft_seconds")),
        itl_seconds=latency_between(sums.users_histogram("itl_seconds"), are_independent=False),
        tpot_seconds=tpot,
        e2e_seconds=latency_between(sums.users_histogram("e2e_seconds")),
        queue_seconds=_queue(sums, failed),
        canary_ttft_seconds=exact_latency([r.ttft_seconds for r in timed if r.ttft_seconds is not None]),
        canary_itl_seconds=exact_latency([gap for r in timed for gap in r.itl_gaps_seconds]),
        canary_tpot_seconds=exact_latency([r.tpot_seconds for r in timed if r.tpot_seconds is not None]),
        canary_e2e_seconds=exact_latency([r.e2e_seconds for r in timed if r.e2e_seconds is not None]),
        over_threshold_ratio={
            f"{signal}>{threshold:g}": _share_over(sums, signal, threshold) for signal, threshold in question.thresholds
        },
        request_rate_per_second=_ratio(finished_total, seconds),
        prompt_tokens_per_second=_ratio(prompted, seconds),
        generation_tokens_per_second=generated_per_second,
        prompt_tokens=prompted,
        generation_tokens=generated,
        requests_finished=finished_total,
        requests_finished_by_reason=finished,
        goodput_per_second=good,
        goodput_ratio=goodput,
        canary_goodput_ratio=exact_goodput(probes, question.goodput) if question.goodput else None,
        canaries=float(len(probes)) if probes else None,
        canaries_failed=float(len(probes) - len(answered)) if probes else None,
        probe_share_ratio=_probe_share(sums, len(answered)),
        prefix_cache_hit_ratio=_hit_ratio(sums, "prefix_cache"),
        external_cache_hit_ratio=_hit_ratio(sums, "external_cache"),
        cache_hit_ratio_by_tier=_tier_ratios(sums),
        itl_mean_seconds_by_engine=_itl_by_engine(windows, start_seconds, end_seconds, names),
        kv_usage_ratio=sums.level("kv_usage_ratio", as_mean=True),
        requests_running=sums.level("requests_running"),
        requests_waiting=sums.level("requests_waiting"),
        preemptions=sums.counter("preemptions_total"),
        engine_steps=None if steps is None else steps.count,
        kv_transfer=kv_transfer(sums),
        router=router_work(sums, increments),
        object_store=object_store(sums),
        failed_ratio=_ratio(failed, finished_total),
        gpu_utilization_ratio=None if utilization is None else utilization.mean,
        power_watts=watts,
        tokens_per_joule=_ratio(generated_per_second, _ratio(energy, sums.covered_seconds(*GPUS))),
        tokens_per_dollar=_ratio(
            generated_per_second, cost_per_second(question.dollars_per_second, question.energy, watts)
        ),
        workload=workload(sums, increments, question.requests, end_seconds) if seconds else None,
        economics=economics(question.dollars_per_second, question.energy, watts, good, tpot) if seconds else None,
    )


def _probes(windows: Windows, start: float, end: float, names: Sequence[str]) -> list[ProbeResult]:
    """Canary results of the window that say something about the service."""
    return [
        result
        for name in names
        for result in windows.probes.get(name, ())
        if start < result.at_seconds <= end
        and is_bad(result.outcome, has_succeeded=name in windows.succeeded) is not None
    ]


def _share_over(sums: Sums, signal: str, threshold: float) -> Figure | None:
    """Gaps between tokens come by the batch: every request of one has the same."""
    return share_over_between(sums.users_histogram(signal), threshold, are_independent=signal != "itl_seconds")


def _goodput(sums: Sums, failed: float | None, before: float | None, wanted: GoodputTarget) -> Figure | None:
    ttft, tpot = sums.users_histogram("ttft_seconds"), sums.users_histogram("tpot_seconds")
    if ttft is None or tpot is None:
        return None
    return figure_between(
        goodput_bounds(ttft.low, tpot.low, failed, before, wanted),
        goodput_bounds(ttft.high, tpot.high, failed, before, wanted),
    )


def _probe_share(sums: Sums, answered: int) -> float | None:
    """Our share of all requests that finished: those found on the pages, else the canaries that were answered."""
    finished = sum(sums.by_label("requests_finished_total").values())
    ours = sum(part for (signal, _), part in sums.own.items() if signal == "requests_finished_total")
    return min(1.0, (ours or answered) / finished) if finished else None


def _queue(sums: Sums, failed: float | None) -> Latency | None:
    """Queue times; no mean beside failed requests, for which vLLM observes times that never were."""
    found = latency_between(sums.users_histogram("queue_seconds"))
    return replace(found, mean=None) if found and failed else found


def _came_before(windows: Windows, start: float, end: float, names: Sequence[str]) -> float | None:
    """How many requests at most had their first token before the window and had not ended; None where no page says.

    Those running, and of the waiting ones as many as were preempted (within the history that is kept).
    """
    total = 0.0
    for key, increments in windows.increments.items():
        if key.target not in names or key.source not in ENGINES:
            continue
        inside = [i for i in increments if start < i.to_seconds <= end]
        if not any("ttft_seconds" in i.histograms or "tpot_seconds" in i.histograms for i in inside):
            continue  # it has no part in the figures
        first = inside[0]
        earlier = [i for i in increments if i.to_seconds <= start]
        edge = earlier[-1] if earlier else first
        if not earlier and first.from_seconds < first.to_seconds:
            if first.from_seconds <= start:
                return None  # nothing was kept of what came before
            continue  # its process began inside the window
        running, waiting = (edge.gauges.get((gauge, "")) for gauge in ("requests_running", "requests_waiting"))
        if running is None or waiting is None:
            return None
        preempted = sum(i.counters.get(("preemptions_total", ""), 0.0) for i in earlier)
        total += running + (min(waiting, preempted) if earlier else waiting)
    return total


def _ratio(part: float | None, whole: float | None) -> float | None:
    """part / whole; unknown when either is, and when there is no whole."""
    return part / whole if part is not None and whole else None


def _hit_ratio(sums: Sums, cache: str) -> float | None:
    return _ratio(sums.users_counter(f"{cache}_hit_tokens_total"), sums.users_counter(f"{cache}_queried_tokens_total"))


def _tier_ratios(sums: Sums) -> Mapping[str, float]:
    """LMCache's hit ratio by tier, over the tokens it was asked for."""
    asked = sums.counter("cache_lookup_tokens_total")
    ratios = {tier: _ratio(sums.counter(signal), asked) for tier, signal in TIERS.items()}
    return {tier: ratio for tier, ratio in ratios.items() if ratio is not None}


def _itl_by_engine(windows: Windows, start: float, end: float, names: Sequence[str]) -> Mapping[str, float]:
    """Of one target that shows several engines, with their model where it shows several; empty for any other, and for
    targets together.
    """
    if len(names) != 1:
        return {}
    means = itl_mean_by_engine(windows.between(start, end, names))
    several = len({key.model for key in means}) > 1
    return {f"{key.engine} of {key.model}" if several else key.engine: mean for key, mean in means.items()}


def _power_watts(sums: Sums) -> float | None:
    """Mean power of all GPUs together: counted energy over its time, else the mean of the power readings."""
    energy, seconds = sums.counter("gpu_energy_joules_total"), sums.covered_seconds(*GPUS)
    if energy is not None and seconds:
        return energy / seconds
    power = sums.level("gpu_power_watts")
    return None if power is None else power.mean
