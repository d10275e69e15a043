"""How a target looks from here: up, stale, down, stuck or unknown, with the words for it."""

from collections.abc import Sequence
from typing import Literal

from agent.model import TargetStatus
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.windows import Increment, TargetLog, Windows
from probes.sample import ProbeResult

NO_ANSWER = ("head_timeout", "first_token_timeout", "stall_timeout", "total_timeout")
PROGRESS = ("generation_tokens_total", "prompt_tokens_total")
STRIKES = 2  # unanswered canaries in a row, before an engine without visible requests is called stuck


def target_status(name: str, facts: TargetFacts, plan: Plan, windows: Windows, now_seconds: float) -> TargetStatus:
    """The status of one target. Slow is not stuck: stuck means requests inside and no progress whatever."""
    log = windows.targets.get(name)
    if log is None:
        return TargetStatus(name, "", "unknown", None, "", "not read yet", facts.model, facts.role, facts.labels)
    seen = log.last_ok.at_seconds if log.last_ok else None
    model = facts.model or log.model
    silent = now_seconds - (seen if seen is not None else log.first_attempt_at_seconds)
    last = log.last_attempt
    if last.outcome != "ok" and silent >= plan.down_after_seconds:
        words = f"no metrics page for {silent:.0f} s: {last.outcome}{': ' if last.detail else ''}{last.detail}"
        return TargetStatus(name, log.source, "down", seen, last.outcome, words, model, facts.role, facts.labels)
    if silent > 2.5 * plan.scrape_interval_seconds or seen is None:
        words = (
            f"last page {silent:.0f} s ago ({last.outcome})" if seen is not None else f"{last.outcome}: {last.detail}"
        )
        return TargetStatus(name, log.source, "stale", seen, last.outcome, words, model, facts.role, facts.labels)
    words = _stuck_words(name, log, plan, windows, now_seconds)
    health: Literal["stuck", "up"] = "stuck" if words else "up"
    return TargetStatus(name, log.source, health, seen, last.outcome, words, model, facts.role, facts.labels)


def last_results(windows: Windows, name: str, count: int) -> Sequence[ProbeResult]:
    """The newest canary results of a target that say something about the service, newest last."""
    told = [result for result in windows.probes.get(name, ()) if result.reached_user_service]
    return told[-count:]


def _stuck_words(name: str, log: TargetLog, plan: Plan, windows: Windows, now_seconds: float) -> str:
    """Why the engine behind a page that answers is called stuck; "" when it is not."""
    if log.source != "vllm":
        return ""
    for key, increments in windows.increments.items():
        if key.target == name and (words := _frozen_words(key.engine, list(increments), plan, now_seconds)):
            return words
    strikes = last_results(windows, name, STRIKES)
    if len(strikes) == STRIKES and all(result.outcome in NO_ANSWER for result in strikes):
        began = strikes[0].planned_at_seconds
        after = [i for i in windows.between(began, now_seconds, [name]) if i.from_seconds >= began]
        if after and not any(_progressed(i) for i in after):
            return (
                f"the last {STRIKES} canaries got no token ({strikes[-1].outcome}) and the engine made no progress "
                f"since, while its page answers"
            )
    return ""


def _frozen_words(engine: str, increments: Sequence[Increment], plan: Plan, now_seconds: float) -> str:
    recent = [
        i for i in increments if i.to_seconds > now_seconds - plan.stuck_after_seconds - plan.scrape_interval_seconds
    ]
    covered = recent[-1].to_seconds - recent[0].from_seconds if recent else 0.0
    if covered < plan.stuck_after_seconds or any(_progressed(i) for i in recent):
        return ""
    running = [i.gauges.get(("requests_running", "")) or 0.0 for i in recent]
    if min(running) <= 0:
        return ""
    return (
        f"engine {engine} has {running[-1]:.0f} requests running and made no step in {covered:.0f} s, "
        f"while its page answers"
    )


def _progressed(increment: Increment) -> bool:
    steps = increment.histograms.get("step_tokens")
    return any(increment.counters.get((signal, ""), 0.0) > 0 for signal in PROGRESS) or (
        steps is not None and steps.count > 0
    )
