"""Who watches the watcher: rules for Prometheus that speak when the agent does not.

An agent that is gone sends nothing, and nothing looks like peace. So these rules stand in another place, and the last
of them is always firing: route it to a heartbeat service outside, which calls when the beat stops.
"""

from typing import Any

from agent.render.promql import rule_file

REMARK = """
Written by `slo-agent rules --deadman`; do not edit.

Dead-man rules: load them in Prometheus wherever an agent runs. Agents are found by the series that they serve, not by
the name of a job, except where `up` is asked: there the job must be called slo-agent, or end in it.
"""

_AGENT_JOB = 'job=~"(.*[-_/])?slo-agent"'
_DELIVERED = (
    'sum by (job, instance) (increase(slo_agent_deliveries_total{output=~"alertmanager.*",outcome%s"ok"}[10m]))'
)


def render_deadman() -> str:
    """The rule file that tells when an agent is absent, down, standing still, or not heard by Alertmanager."""
    group = {"name": "slo-agent-deadman", "interval": "30s", "rules": [*_blind_alerts(), _watchdog()]}
    return rule_file([group], REMARK)


def _blind_alerts() -> list[dict[str, Any]]:
    return [
        _alert(
            "absent",
            "page",
            "absent(slo_agent_config_info)",
            "5m",
            "No SLO agent is scraped.",
            "Prometheus has had no series of any slo-agent for 5 minutes: nobody counts, nobody pages. "
            "See whether the agent runs, and whether Prometheus still has it among its targets.",
        ),
        _alert(
            "down",
            "page",
            f"up{{{_AGENT_JOB}}} == 0",
            "2m",
            "An SLO agent does not answer Prometheus.",
            "{{ $labels.instance }} has not answered for 2 minutes: nobody watches its targets.",
        ),
        _alert(
            "gone",
            "ticket",
            "count by (job, instance) (slo_agent_config_info offset 15m) "
            "unless on (job, instance) count by (job, instance) (slo_agent_config_info)",
            "2m",
            "An SLO agent has left.",
            "{{ $labels.instance }} was there 15 minutes ago, and no target is left to be down. If its node is gone "
            "for good, this ends by itself.",
        ),
        _alert(
            "stalled",
            "page",
            "max by (job, instance) (slo_agent_last_tick_age_seconds) > 60 "
            "or sum by (job, instance) (increase(slo_agent_scrapes_total[5m])) == 0",
            "2m",
            "An SLO agent answers, but does not work.",
            "{{ $labels.instance }} has evaluated nothing for a minute, or looked at none of its targets for five: "
            "its figures are old, and it cannot page. Its own page at / says why; restart it.",
        ),
        _alert(
            "unheard",
            "page",
            f"{_DELIVERED % '!='} > 2 unless on (job, instance) {_DELIVERED % '='} > 0",
            "2m",
            "An SLO agent cannot reach Alertmanager.",
            "{{ $labels.instance }} has had no alert taken by any Alertmanager for 10 minutes: pages do not arrive.",
        ),
    ]


def _alert(reason: str, severity: str, expr: str, hold: str, summary: str, description: str) -> dict[str, Any]:
    return {
        "alert": "AgentBlind",
        "expr": expr,
        "for": hold,
        "labels": {"severity": severity, "tier": "fast", "reason": reason, "evaluator": "prometheus"},
        "annotations": {"summary": summary, "description": description},
    }


def _watchdog() -> dict[str, Any]:
    return {
        "alert": "Watchdog",
        "expr": "vector(1)",
        "labels": {"severity": "none", "evaluator": "prometheus"},
        "annotations": {
            "summary": "Always firing: Prometheus and Alertmanager are alive.",
            "description": "Route it to a heartbeat service outside: silence means that no alert arrives.",
        },
    }
