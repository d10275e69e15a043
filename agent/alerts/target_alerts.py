"""Alerts about one target: unreachable, stuck, canary down, cache tier down; and about our own sight."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agent.alerts.book import Wanted, alert_labels
from agent.alerts.cache_tier import caches_down, lost_clients
from agent.alerts.health import last_results
from agent.alerts.workers import ill_workers
from agent.model import TargetStatus
from agent.plan import Plan
from agent.windows import Windows
from probes.systems import ENGINES, ROUTERS

CANARY_STRIKES = 3
BLIND_AFTER_SECONDS = 90.0
LOST_TOLD_SECONDS = 86_400.0

NAMES = {
    "lmcache": "CacheTierDown",
    "mooncake": "CacheTierDown",
    "dcgm": "GPUFault",
    **dict.fromkeys(ENGINES, "EngineUnreachable"),
    **dict.fromkeys(ROUTERS, "RouterUnreachable"),
}
PAGING = ("EngineUnreachable", "RouterUnreachable")
MENDS = {
    "EngineUnreachable": "look at the pod or process; if it restarts again and again, its log says why",
    "RouterUnreachable": "look at its pod or process: without it no request gets in, whatever the engines say",
    "EngineStuck": "restart the engine process; its API server goes on answering /health, so nothing else will",
    "CacheTierDown": "restart the cache server; look whether its engines go on: one that was waiting for it may hang",
    "CanaryDown": "try the request by hand: slo-agent probe URL",
}


def target_alerts(
    statuses: Sequence[TargetStatus], plan: Plan, windows: Windows, now_seconds: float
) -> Iterator[Wanted]:
    """The alerts that targets want now."""
    for status in statuses:
        if status.health == "down":
            name = NAMES.get(status.source, "EngineUnreachable")
            severity = "page" if name in PAGING else "ticket"
            yield _wanted(name, severity, status, plan, f"{status.name} cannot be reached", status.detail)
        elif status.health == "stuck":
            wanted = _wanted("EngineStuck", "page", status, plan, f"{status.name} is stuck", status.detail)
            yield _with_cache_down(wanted, caches_down([status.name], statuses, plan.targets, windows))
        elif status.source == "mooncake" and (lost := lost_clients(status.name, windows, now_seconds)):
            yield _wanted("CacheTierDown", "ticket", status, plan, f"{status.name} has lost clients", lost)
        elif status.source in ROUTERS and status.health == "up":
            yield from _told_by_router(status, plan, windows)
        yield from _canary_down(status, plan, windows, now_seconds)


def blind_alert(windows: Windows, plan: Plan, now_seconds: float) -> Iterator[Wanted]:
    """AgentBlind: nobody even tried to look for a while, so silence means nothing."""
    if not plan.targets or not windows.targets:
        return
    newest = max(log.last_attempt.at_seconds for log in windows.targets.values())
    newest = max(newest, windows.restored_at_seconds or newest)
    if now_seconds - newest > max(BLIND_AFTER_SECONDS, 3 * plan.scrape_interval_seconds):
        detail = f"the last look at any target was {now_seconds - newest:.0f} s ago"
        words = {
            "summary": "the SLO agent does not see",
            "description": f"{detail}. Alerts that fire go on firing; new ones cannot be noticed.",
            "cause": "the agent itself: its scrapes do not run",
            "recommendation": "restart the agent and read its log",
            "page_url": plan.page_url,
        }
        yield Wanted(alert_labels("AgentBlind", "page", plan.node), words)


def lost_alert(lost_at_seconds: float | None, plan: Plan, now_seconds: float) -> Iterator[Wanted]:
    """SLOStateLost: for a day after the state file could not be read, people are told that budgets began anew."""
    if lost_at_seconds is not None and now_seconds - lost_at_seconds < LOST_TOLD_SECONDS:
        words = {
            "summary": "the SLO agent lost its memory",
            "description": "The state file could not be read. What was spent of the error budgets before is unknown, "
            "and every budget stays unknown until a whole period has been watched again.",
            "cause": "the state file was damaged; it was moved aside, and the agent's log names it",
            "recommendation": "look at the disk; put a copy of the state file back and restart the agent",
            "page_url": plan.page_url,
        }
        yield Wanted(alert_labels("SLOStateLost", "ticket", plan.node), words)


def _with_cache_down(wanted: Wanted, caches: Sequence[TargetStatus]) -> Wanted:
    """A cache server that is down at the same time is the likelier cause of an engine that asks one.

    vLLM 0.32 with LMCache 0.5.6, its server killed: no step, and 300 s later (lmcache.mp.mq_timeout, and vLLM's own
    limit of a step) the engine died; a server that was started again in between did not help it.
    """
    if not caches:
        return wanted
    words = {
        "cause": f"the cache server {caches[0].name} is down ({caches[0].detail}), and an engine that waits for one "
        f"stands still: {wanted.annotations['description']}",
        "recommendation": f"restart the cache server {caches[0].name}, then this engine if it makes no step soon",
    }
    return replace(wanted, annotations={**wanted.annotations, **words})


def _told_by_router(status: TargetStatus, plan: Plan, windows: Windows) -> Iterator[Wanted]:
    """Workers that the router takes to be ill, and that nobody else watches."""
    watched = {facts.url for facts in plan.targets.values()}
    for worker in ill_workers(windows, status.name):
        if worker.rstrip("/") not in watched:
            words = f"{status.name} has no answer from {worker} and sends it no requests"
            yield _wanted("EngineUnreachable", "page", replace(status, name=worker), plan, f"{worker} is away", words)


def _canary_down(status: TargetStatus, plan: Plan, windows: Windows, now_seconds: float) -> Iterator[Wanted]:
    """Strikes are counted per kind of canary and model: one that is answered says nothing about another.

    Where a page shows several models, the alert is about the one that was asked for; the page's own changes its mind.
    """
    several = len({key.model for key in windows.increments if key.target == status.name}) > 1
    asked = {(result.kind, result.model) for result in windows.probes.get(status.name, ())}
    for kind, model in sorted(asked if several else {(kind, None) for kind, _ in asked}, key=str):
        results = last_results(windows, status.name, CANARY_STRIKES, now_seconds, kind, model)
        if len(results) == CANARY_STRIKES and not any(result.is_ok for result in results):
            reasons = ", ".join(dict.fromkeys(result.outcome for result in results))
            words = results[-1].detail or "no further words"
            detail = f"the last {CANARY_STRIKES} {kind} canaries failed ({reasons}): {words}"
            summary = f"no {kind} canary gets an answer from {status.name}"
            about = replace(status, model=model) if model is not None else status
            yield _wanted("CanaryDown", "page", about, plan, summary, detail)
            return


def _wanted(name: str, severity: str, status: TargetStatus, plan: Plan, summary: str, detail: str) -> Wanted:
    facts = plan.targets.get(status.name)
    is_engine = status.source in ENGINES
    labels = alert_labels(
        name,
        severity,
        plan.node,
        target=status.name,
        service=facts.service if facts else None,
        model=status.model if is_engine else facts.model if facts else None,  # pages of a cache name the model's folder
        role=status.role if is_engine else None,
    )
    words = {
        "summary": summary,
        "description": detail,
        "cause": f"{detail}; its metrics page answers{_said(status)}" if status.health == "up" else detail,
        "recommendation": MENDS.get(name, ""),
        "dashboard_url": plan.dashboard_url,
        "page_url": plan.page_url,
    }
    return Wanted(labels, words)


def _said(status: TargetStatus) -> str:
    """What the page of a target that is up says beyond that, such as that the engine sleeps."""
    return f" and says that {status.detail}" if status.detail else ""
