"""What an SLO will do, told before it does it: when it pages, what one failed canary does, where it cannot decide.

Source of the formulas: The Site Reliability Workbook, chapter 5: with a constant share e of bad events from t = 0 on,
a pair with long window L and factor F fires after L * F * budget / e, and never when e <= F * budget.
"""

import bisect
from collections.abc import Iterator

from agent.model import BurnPair, Slo
from agent.render.counting import HISTOGRAM_OF
from agent.render.vllm_edges import FAMILY_OF
from probes.names.vllm import DEFAULT_EDGES

SIGNAL_OF = {
    "ttft": "ttft_seconds",
    "itl": "itl_seconds",
    "tpot": "tpot_seconds",
    "e2e": "e2e_seconds",
    "queue": "queue_seconds",
}
FAMILIES = {signal: FAMILY_OF[HISTOGRAM_OF[sli]] for sli, signal in SIGNAL_OF.items()}  # of --custom-histogram-buckets


def detection_seconds(slo: Slo, pair: BurnPair, bad_ratio: float) -> float | None:
    """Seconds from the onset of a constant share of bad events until the pair fires; None: never."""
    threshold = pair.factor * slo.budget_ratio
    return pair.long_seconds * threshold / bad_ratio if bad_ratio > threshold else None


def first_alert(
    slo: Slo, severity: str, bad_ratio: float, event_interval_seconds: float | None = None
) -> tuple[float, BurnPair] | None:
    """The pair of this severity that fires first, and after how many seconds; None: none ever does.

    Where events come so far apart (canaries), the bad ones that a pair needs at least take their time as well.
    """
    at_least = slo.min_bad_events * (event_interval_seconds or 0.0) / bad_ratio
    found = [
        (max(seconds, at_least), pair)
        for pair in slo.pairs
        if pair.severity == severity and (seconds := detection_seconds(slo, pair, bad_ratio)) is not None
    ]
    return min(found, key=lambda item: item[0], default=None)


def warnings(slo: Slo, canary_interval_seconds: float | None) -> Iterator[str]:
    """What whoever writes this SLO should know. `canary_interval_seconds` is None without canaries."""
    if not slo.pairs:
        yield (
            f"no burn window fits into a period of {slo.period_seconds:g} s: it never alerts. Write a longer "
            f"period_seconds, or burn.windows of your own."
        )
    for pair in slo.pairs:
        if pair.factor * slo.budget_ratio >= 1:
            yield (
                f"the {pair.severity}/{pair.tier} pair can never fire: {pair.factor:g} times the budget of "
                f"{slo.budget_ratio:.1%} is more than all events. Give burn.windows of your own, or a higher objective."
            )
    yield from _between_buckets(slo)
    if slo.slice_seconds is not None:
        yield from _slices_too_long(slo, slo.slice_seconds, canary_interval_seconds)
    elif slo.source == "canary" and canary_interval_seconds is not None:
        yield from _lone_failure(slo, canary_interval_seconds)


def _between_buckets(slo: Slo) -> Iterator[str]:
    if slo.source != "engine":
        return
    asked = {"ttft_seconds": slo.ttft_seconds, "tpot_seconds": slo.tpot_seconds}
    if slo.sli in SIGNAL_OF:
        asked = {SIGNAL_OF[slo.sli]: slo.threshold_seconds}
    for signal, threshold in asked.items():
        if threshold is not None and threshold not in DEFAULT_EDGES.get(signal, (threshold,)):
            yield _undecided_words(slo, FAMILIES[signal], DEFAULT_EDGES[signal], threshold)


def _undecided_words(slo: Slo, family: str, edges: tuple[float, ...], threshold: float) -> str:
    place = bisect.bisect_left(edges, threshold)
    below, above = edges[place - 1] if place else 0.0, edges[place] if place < len(edges) else None
    nearest = f"{below:g} or {above:g}" if above is not None else f"{below:g}"
    return (
        f"{threshold:g} s is no bucket edge of vLLM's default histogram: requests between {below:g} and "
        f"{'infinity' if above is None else f'{above:g}'} s cannot be told apart and count as {slo.undecided}. Write "
        f"{nearest}, or start vLLM with --custom-histogram-buckets '{{\"{family}\": [..., {threshold:g}, ...]}}'."
    )


def _slices_too_long(slo: Slo, length_seconds: float, canary_interval_seconds: float | None) -> Iterator[str]:
    for pair in slo.pairs:
        if pair.short_seconds < length_seconds:
            yield (
                f"the {pair.severity}/{pair.tier} pair's short window of {pair.short_seconds:g} s holds less than one "
                f"slice of {length_seconds:g} s. Write a shorter slice_seconds, or burn.windows of your own."
            )
    if slo.source == "canary" and canary_interval_seconds is not None and canary_interval_seconds > length_seconds:
        yield (
            f"a canary every {canary_interval_seconds:g} s leaves slices of {length_seconds:g} s empty, and those are "
            f"not counted. Write a longer slice_seconds, or a shorter interval_seconds of the canary."
        )


def _lone_failure(slo: Slo, interval_seconds: float) -> Iterator[str]:
    for pair in slo.pairs:
        needed = pair.long_seconds * pair.factor * slo.budget_ratio
        if pair.severity == "page" and interval_seconds > needed:
            yield (
                f"one failed canary in {pair.long_seconds / 3600:g} h burns faster than the {pair.tier} page pair "
                f"allows (a canary every {interval_seconds:g} s; {needed:.0f} s or less would not). It takes "
                f"{slo.min_bad_events} failures to page (burn.min_bad_events)."
            )
