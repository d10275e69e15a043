"""Why nobody tells what an SLO counts: a rollout, engines that are down, or our own blindness."""

from collections.abc import Mapping, Sequence
from math import inf

from agent.alerts.health import last_results
from agent.model import Silence, Slo, TargetStatus
from agent.sli.engine import counted_signal
from agent.windows import Windows

ANSWERS_APART_SECONDS = 900.0  # three of correctness' default intervals
ROLL_OUT_SECONDS = 600.0  # a cold start takes minutes: 2 to 7 with weights to load (facts of real rollouts)


def no_data(slo: Slo, ours: Sequence[TargetStatus], windows: Windows, now_seconds: float) -> Silence | None:
    """Why no source tells what this SLO counts; None while one does. `ours` are the targets that it counts."""
    if not ours:
        return Silence("blind", "no target that is watched counts for it")
    if slo.source == "canary":
        return _no_canary(slo, ours, windows, now_seconds)
    oldest = now_seconds - _look_back_seconds(slo)
    if slo.source == "span" and any(windows.span_seen_seconds.get(t.name, oldest) > oldest for t in ours):
        return None
    if slo.source == "router":  # its series come up with their first event: a page without them says that none was
        answers = any(_answers(target) for target in ours)
        return None if answers else _no_page(ours, "request counter", windows, now_seconds)
    signal = counted_signal(slo)
    if any(_answers(target) and windows.has(target.name, signal) for target in ours):
        return None
    return _no_page(ours, signal, windows, now_seconds)


def no_data_of_one(composite: Slo, silences: Mapping[str, Silence | None]) -> Silence | None:
    """Why a member of the composite is not told of, by the members' own silences; None while each of them is."""
    found = ((name, silences[name]) for name in composite.all_of)
    return next((Silence(why.reason, f"{name}: {why.detail}") for name, why in found if why is not None), None)


def _no_page(ours: Sequence[TargetStatus], signal: str, windows: Windows, now_seconds: float) -> Silence:
    if young := [target.name for target in ours if _is_young(target, windows, now_seconds)]:
        return Silence("rolling_out", f"{', '.join(sorted(young))} began less than {ROLL_OUT_SECONDS / 60:.0f} min ago")
    if deaf := [target.name for target in ours if _answers(target)]:
        return Silence("blind", f"the page of {', '.join(sorted(deaf))} has no {signal}")
    if all(target.health == "down" for target in ours):
        return Silence("down", "; ".join(f"{target.name}: {target.detail}" for target in ours))
    return Silence("blind", "; ".join(f"{t.name}: {t.detail}" for t in ours if t.health != "down"))


def _no_canary(slo: Slo, ours: Sequence[TargetStatus], windows: Windows, now_seconds: float) -> Silence | None:
    look_back = _look_back_seconds(slo)
    if slo.sli == "correctness":
        look_back = max(look_back, ANSWERS_APART_SECONDS)
        if any(windows.answered_at_seconds.get(t.name, -inf) > now_seconds - look_back for t in ours):
            return None
        return Silence("blind", f"no canary asked for a known answer in {look_back / 60:.0f} min")
    last = [result for target in ours for result in last_results(windows, target.name, 1, now_seconds)]
    if any(result.at_seconds > now_seconds - look_back for result in last):
        return None
    said = sorted({results[-1].outcome for target in ours if (results := windows.probes.get(target.name))})
    words = f"; the last one of all was {', '.join(said)}" if said else ""
    return Silence("blind", f"no canary told anything in {look_back / 60:.0f} min{words}")


def _look_back_seconds(slo: Slo) -> float:
    return slo.pairs[0].short_seconds if slo.pairs else slo.period_seconds


def _answers(target: TargetStatus) -> bool:
    return target.health in ("up", "stuck")


def _is_young(target: TargetStatus, windows: Windows, now_seconds: float) -> bool:
    """Its process, or our knowledge of it, began within the time that a rollout takes."""
    log = windows.targets.get(target.name)
    if log is None:
        return True
    if log.last_ok is None:
        return now_seconds - log.first_attempt_at_seconds < ROLL_OUT_SECONDS
    began = log.last_ok.process_start_seconds
    return _answers(target) and began is not None and now_seconds - began < ROLL_OUT_SECONDS
