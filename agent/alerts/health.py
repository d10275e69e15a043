"""How a target looks from here: up, stale, down, stuck or unknown, with the words for it."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Literal

from agent.model import TargetStatus
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.windows import Increment, TargetLog, Windows
from probes.canary.outcomes import is_bad
from probes.sample import ProbeResult
from probes.systems import ENGINES

NO_ANSWER = ("head_timeout", "first_token_timeout", "stall_timeout", "total_timeout")
PROGRESS = ("generation_tokens_total", "prompt_tokens_total")
AWAKE = "awake"
AGE_OUT_SECONDS = 300.0
AGE_OUT_GAPS = 3.0  # usual gaps between canaries without one
STRIKES = 2  # unanswered canaries in a row, before an engine without visible requests is called stuck


def target_status(name: str, facts: TargetFacts, plan: Plan, windows: Windows, now_seconds: float) -> TargetStatus:
    """The status of one target. Slow is not stuck: stuck means requests inside and no progress whatever.

    An engine that sleeps is up, and its words say that it serves nobody: somebody put it to sleep.
    """
    log = windows.targets.get(name)
    if log is None:
        return TargetStatus(name, "", "unknown", None, "", "not read yet", facts.model, facts.role, facts.labels)
    seen = log.last_ok.at_seconds if log.last_ok else None
    model = facts.model or log.model
    silent = now_seconds - (seen if seen is not None else log.first_attempt_at_seconds)
    last = log.last_attempt
    if silent < -plan.scrape_interval_seconds:
        words = f"the clock was set back by {-silent:.0f} s or more: nothing newer can be read until then"
        return TargetStatus(name, log.source, "stale", seen, last.outcome, words, model, facts.role, facts.labels)
    watched = min(silent, now_seconds - windows.restored_at_seconds) if windows.restored_at_seconds else silent
    if last.outcome != "ok" and watched >= plan.down_after_seconds:
        words = f"no metrics page for {silent:.0f} s: {last.outcome}{': ' if last.detail else ''}{last.detail}"
        return TargetStatus(name, log.source, "down", seen, last.outcome, words, model, facts.role, facts.labels)
    if silent > 2.5 * plan.scrape_interval_seconds or seen is None:
        words = (
            f"last page {silent:.0f} s ago ({last.outcome})" if seen is not None else f"{last.outcome}: {last.detail}"
        )
        return TargetStatus(name, log.source, "stale", seen, last.outcome, words, model, facts.role, facts.labels)
    words = _stuck_words(name, log, plan, windows, now_seconds)
    health: Literal["stuck", "up"] = "stuck" if words else "up"
    words = words or _asleep_words(name, windows)
    return TargetStatus(name, log.source, health, seen, last.outcome, words, model, facts.role, facts.labels)


def last_results(
    windows: Windows, name: str, count: int, now_seconds: float, kind: str | None = None, model: str | None = None
) -> Sequence[ProbeResult]:
    """The newest canary results of a target that say something about the service, of one kind and model, or of any.

    The newest is the last. Results age out: when several planned ones are missing after them, canaries are not sent
    any more, and what the last ones said is over.
    """
    known = name in windows.succeeded
    told = [
        result
        for result in windows.probes.get(name, ())
        if kind in (None, result.kind)
        and model in (None, result.model)
        and is_bad(result.outcome, has_succeeded=known) is not None
    ]
    usual = median(b.at_seconds - a.at_seconds for a, b in pairwise(told)) if len(told) > 1 else 0.0
    if told and now_seconds - told[-1].at_seconds > max(AGE_OUT_SECONDS, AGE_OUT_GAPS * usual):
        return ()
    return told[-count:]


def _stuck_words(name: str, log: TargetLog, plan: Plan, windows: Windows, now_seconds: float) -> str:
    """Why the engine behind a page that answers is called stuck; "" when it is not."""
    last_ok = log.last_ok
    if log.source not in ENGINES or last_ok is None:
        return ""
    awake = [increment.key for increment in windows.on_page(name) if not _sleep_state(increment)]
    for key in awake:
        if words := _frozen_words(key.engine, windows.increments[key], plan):
            return words
    strikes = last_results(windows, name, STRIKES, now_seconds)
    if awake and len(strikes) == STRIKES and all(result.outcome in NO_ANSWER for result in strikes):
        began = strikes[0].planned_at_seconds
        after = [i for i in windows.between(began, now_seconds, [name]) if i.from_seconds >= began]
        if after and all(_progressed(i) is False for i in after):
            return (
                f"the last {STRIKES} canaries got no token ({strikes[-1].outcome}) and the engine made no progress "
                f"since, while its page answers"
            )
    return ""


def _frozen_words(engine: str, increments: Sequence[Increment], plan: Plan) -> str:
    """Readings up to the newest that all had requests inside, and no progress between them."""
    began = newest = increments[-1].to_seconds
    for increment in reversed(increments):
        if _inside(increment) <= 0:
            break
        began = increment.to_seconds
        if _progressed(increment) is not False:
            break
    if newest - began < plan.stuck_after_seconds:
        return ""
    return (
        f"engine {engine} has {_inside_words(increments[-1])} and made no step in {newest - began:.0f} s, "
        f"while its page answers"
    )


def _inside(increment: Increment) -> float:
    """Requests inside at its end; those that the page does not tell cannot be called stuck."""
    return sum(increment.gauges.get((f"requests_{state}", ""), 0.0) for state in ("running", "waiting"))


def _inside_words(increment: Increment) -> str:
    """Deferred ones are named: they wait for something outside the engine."""
    running, waiting = (increment.gauges.get((f"requests_{state}", ""), 0.0) for state in ("running", "waiting"))
    deferred = increment.gauges.get(("requests_waiting_by_reason", "deferred"), 0.0)
    of_them = f" ({deferred:.0f} deferred: for KV from a cache or another instance)" if deferred > 0 else ""
    told = [f"{running:.0f} requests running"] * (running > 0) + [f"{waiting:.0f} waiting{of_them}"] * (waiting > 0)
    return ", ".join(told)


def _sleep_state(increment: Increment) -> str:
    """How the engine sleeps: weights_offloaded or discard_all; "" for one that is awake or does not say."""
    states = (label for (signal, label), value in increment.gauges.items() if signal == "engine_sleep_state" and value)
    return next((state for state in states if state != AWAKE), "")


def _asleep_words(name: str, windows: Windows) -> str:
    """Which engines on a target's newest page sleep; "" when none does."""
    asleep = {i.key.engine: state for i in windows.on_page(name) if (state := _sleep_state(i))}
    told = ", ".join(f"engine {engine} sleeps ({state})" for engine, state in sorted(asleep.items()))
    return f"{told}: it serves nobody until it is woken" if told else ""


def _progressed(increment: Increment) -> bool | None:
    """Whether the engine did anything; None where its page does not say."""
    rises = [increment.counters.get((signal, "")) for signal in PROGRESS]
    steps = increment.histograms.get("step_tokens")
    known = [rise for rise in (*rises, None if steps is None else steps.count) if rise is not None]
    return any(rise > 0 for rise in known) if known else None
