"""A real Prometheus beside the demo: the dashboard has data, the rules load, and a dead agent is missed."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_demo import Told
from live_figures import tell
from live_parts import ROOT, program
from live_process import until
from live_prometheus import RULES, Prometheus

pytestmark = pytest.mark.real
DASHBOARD = ROOT / "dashboards" / "slo-agent.json"
VARIABLES = {"$agent": ".+", "$target": ".+", "$model": ".+", "$slo": ".+", "$__rate_interval": "20s"}
DEAD_MAN_SECONDS = 400.0  # the rule waits for 2 minutes

# What the dashboard asks for and the demo cannot have, and why.
NOT_IN_THE_DEMO = {
    "slo_agent_gpu_utilization_ratio": "there is no GPU",
    "slo_agent_power_watts": "there is no GPU",
    "slo_agent_tokens_per_joule": "there is no GPU",
    "slo_agent_deliveries_total": "no Alertmanager is configured: the terminal and the page tell it all",
    "slo_agent_page_warnings_total": "nothing is odd about the pages, and what could be is not known beforehand",
}


def queries() -> Iterator[str]:
    """Every expression of the dashboard; those of collapsed rows too."""

    def walk(panels: list[dict[str, Any]]) -> Iterator[str]:
        for panel in panels:
            yield from (target["expr"] for target in panel.get("targets", []))
            yield from walk(panel.get("panels", []))

    yield from walk(json.loads(DASHBOARD.read_text())["panels"])


def metric_of(expression: str) -> str:
    return re.findall(r"slo_agent_\w+", expression)[0]


def filled(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def test_every_query_of_the_dashboard_returns_data(story: Told, prometheus: Prometheus) -> None:
    """At some moment of the story: a query for failures has an answer only where something failed."""
    asked = list(queries())
    empty = [
        expression
        for expression in asked
        if not prometheus.series(filled(expression), story.from_seconds, story.to_seconds)
    ]
    why = {expression: NOT_IN_THE_DEMO.get(metric_of(expression)) for expression in empty}
    tell(f"dashboard: {len(asked) - len(empty)} of {len(asked)} queries returned data; not: {why}")
    assert [expression for expression, reason in why.items() if reason is None] == []


def test_a_killed_agent_is_missed(killed_agent: str, prometheus: Prometheus) -> None:
    """The rule as it is shipped, from Prometheus' own API."""
    instance = killed_agent.removeprefix("http://")

    def firing() -> list[dict[str, str]]:
        return [
            one for one in prometheus.alerts() if one["alertname"] == "AgentBlind" and one.get("instance") == instance
        ]

    alerts = until("AgentBlind fires", DEAD_MAN_SECONDS, firing)
    tell(f"dead man: {alerts}")
    assert {(one["alertname"], one["reason"], one["severity"]) for one in alerts} == {("AgentBlind", "down", "page")}


@pytest.mark.parametrize("file", sorted(RULES.glob("*.yaml")), ids=lambda path: path.name)
def test_promtool_accepts_the_rules(file: Path) -> None:
    ended = subprocess.run([program("promtool"), "check", "rules", file], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
