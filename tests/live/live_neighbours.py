"""What the tests of neighbours share: an agent that has read every page, and what it counted."""

from pathlib import Path
from typing import Any

from live_agent import RunningAgent
from live_process import until

from probes.systems import ROUTERS

SEEN_SECONDS = 90.0


def watching(targets: list[dict[str, Any]], folder: Path) -> RunningAgent:
    """An agent that reads once a second, sends no canaries, and has read every page already."""
    config = {
        "tick_seconds": 1,
        "targets": targets,
        "scrape": {"interval_seconds": 1, "timeout_seconds": 1, "down_after_seconds": 5},
        "gpu": {"enabled": "no"},
        "canaries": [],
    }
    if any(target["kind"] in ROUTERS for target in targets):
        config["slos"] = [{"name": "front", "sli": "availability", "source": "router", "objective_ratio": 0.999}]
    agent = RunningAgent(config, folder)
    until("every page was read", SEEN_SECONDS, lambda: all(agent.health(t["name"]) == "up" for t in targets))
    return agent


def routed(agent: RunningAgent, target: str) -> dict[str, Any]:
    """What the agent counted at this router in the last hour."""
    found: dict[str, Any] = agent.api("signals", window_seconds="3600")["targets"][target]["signals"]["router"]
    return found


def settled(agent: RunningAgent, target: str, requests: float) -> dict[str, Any]:
    """The same, once the page with the last of so many requests was read."""

    def every_one() -> dict[str, Any] | None:
        work = routed(agent, target)
        ended = work["answered"] + work["failed"] + work["cancelled"] + work["refused"]
        return work if ended >= requests else None

    return until(f"{requests} requests have ended at {target}", SEEN_SECONDS, every_one)


def alert_about(agent: RunningAgent, name: str, target: str) -> dict[str, Any]:
    """The firing alert of this name about this target."""

    def firing() -> dict[str, Any] | None:
        alerts = agent.api("alerts")["alerts"]
        return next(
            (a for a in alerts if (a["labels"]["alertname"], a["labels"].get("target")) == (name, target)), None
        )

    return until(f"{name} about {target}", SEEN_SECONDS, firing)
