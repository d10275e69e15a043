"""The likeliest cause of a burning SLO, from the engines' own signals, in one sentence with its figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.alerts.cache_tier import caches_down
from agent.alerts.workers import ill_workers
from agent.model import Slo, TargetStatus
from agent.signals.post_time import post_time_explanation
from agent.signals.ranks import slow_rank
from agent.signals.routing import router_work
from agent.signals.sums import add_up
from agent.sli.count import TargetFacts, concerns
from agent.windows import Increment, Windows
from probes.systems import ENGINES, ROUTERS

CAUSES = ("", *ENGINES, *ROUTERS)  # sources of targets whose state can be why; "" was never read
PACES = ("itl", "tpot", "stall")  # SLIs that suffer when a decode loop stands still
LOOK_BACK_SECONDS = 300.0
KV_FULL_RATIO = 0.95
QUEUE_SHARE = 0.1  # of the running requests: a queue shorter than that is gone within a tenth of a request's time


@dataclass(frozen=True, slots=True)
class Cause:
    """A closed code for machines and a sentence for people. "unknown" is a cause too."""

    code: str
    words: str


def likely_cause(
    slo: Slo, statuses: Sequence[TargetStatus], targets: Mapping[str, TargetFacts], windows: Windows, now_seconds: float
) -> Cause:
    """What most probably makes this SLO burn. Nothing clear is said to be unknown."""
    ours = [s for s in statuses if s.source in CAUSES and concerns(slo, targets.get(s.name), s.model)]
    names = [s.name for s in ours]
    return (
        _told_by_health(ours, caches_down(names, statuses, targets, windows))
        or _proven_cause(slo, ours, windows, now_seconds)
        or _told_by_the_engines(list(windows.between(now_seconds - LOOK_BACK_SECONDS, now_seconds, names)))
    )


def _told_by_health(ours: Sequence[TargetStatus], caches: Sequence[TargetStatus]) -> Cause | None:
    """Somebody does not work; a cache server that is down is told beside an engine."""
    cache_words = f"the cache server {caches[0].name} is down: {caches[0].detail}" if caches else ""
    for health, code in (("stuck", "engine_stuck"), ("down", "engine_unreachable")):
        if hit := [s for s in ours if s.health == health]:
            also = f"; {cache_words}" if cache_words else ""
            return Cause(code, f"{hit[0].name} is {health}: {hit[0].detail}{also}")
    return Cause("cache_tier_down", f"{cache_words}; what it held is computed anew") if cache_words else None


def _told_by_the_engines(increments: Sequence[Increment]) -> Cause:
    """What their own signals of the last minutes say."""
    sums = add_up(increments)
    usage, waiting = sums.level("kv_usage_ratio", as_mean=True), sums.level("requests_waiting")
    preemptions = sums.counter("preemptions_total")
    minutes = LOOK_BACK_SECONDS / 60
    if (
        usage is not None
        and ((preemptions is not None and preemptions > 0) or usage.mean >= KV_FULL_RATIO)
        and waiting is not None
        and waiting.mean > 0
    ):
        times = "an unknown number of" if preemptions is None else f"{preemptions:.0f}"
        return Cause(
            "kv_exhaustion",
            f"the KV cache is full: {usage.mean:.0%} in use over {minutes:.0f} min, {times} preemptions, "
            f"{waiting.last:.0f} requests waiting",
        )
    if slow := slow_rank(increments):
        return Cause(
            "slow_engine",
            f"engine {slow.engine} of {slow.target} is slow: {slow.itl_mean_seconds * 1000:.0f} ms between two tokens, "
            f"{slow.others_seconds * 1000:.0f} ms on the others, over {minutes:.0f} min",
        )
    running = sums.level("requests_running")
    at_work = 0.0 if running is None else running.mean
    if waiting is not None and waiting.mean >= max(1.0, QUEUE_SHARE * at_work):
        return Cause(
            "queueing",
            f"requests queue: {waiting.last:.0f} waiting now, {waiting.mean:.0f} on average over {minutes:.0f} min; "
            f"more arrive than the engines serve",
        )
    return Cause("unknown", "no engine signal stands out; look at the requests themselves (prompt and output lengths)")


def _proven_cause(slo: Slo, ours: Sequence[TargetStatus], windows: Windows, now_seconds: float) -> Cause | None:
    """What the figures of this very kind of SLO prove; None where they prove nothing."""
    if slo.source == "router":
        return _routed_cause(slo, ours, windows, now_seconds)
    if slo.sli in PACES:
        names = [status.name for status in ours]
        explanation = post_time_explanation(windows.between(now_seconds - LOOK_BACK_SECONDS, now_seconds, names))
        if explanation is not None:
            return Cause(explanation.code, explanation.words)
    if slo.source == "span" and slo.slice_seconds is None:
        counts = windows.events[slo.name].since(now_seconds - LOOK_BACK_SECONDS)
        if counts.undecided > counts.bad:
            return Cause(
                "spans_missing",
                f"{counts.undecided:.0f} of {counts.total:.0f} requests of the last {LOOK_BACK_SECONDS / 60:.0f} min "
                f"sent no span, so how they were is not known; each target's span coverage says whose (docs/spans.md)",
            )
    return None


def _routed_cause(slo: Slo, ours: Sequence[TargetStatus], windows: Windows, now_seconds: float) -> Cause | None:
    """What the routers say of the failures they counted, and which of their workers they take to be ill."""
    names = [status.name for status in ours if status.source in ROUTERS]
    increments = list(windows.between(now_seconds - LOOK_BACK_SECONDS, now_seconds, names))
    work = router_work(add_up(increments), increments)
    if slo.sli != "availability" or work is None or not work.failed:
        return None
    reasons = ", ".join(f"{count:.0f} {why}" for why, count in work.failed_by_reason.items())
    ill = sorted({worker for name in names for worker in ill_workers(windows, name)})
    where = f"; the router takes {', '.join(ill)} to be ill" if ill else ""
    minutes = LOOK_BACK_SECONDS / 60
    words = f"{work.failed:.0f} requests failed at the router in {minutes:.0f} min: {reasons}{where}"
    return Cause("router_failures", words)
