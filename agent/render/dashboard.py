"""Grafana dashboards, from code: `slo-agent dashboards --out DIR` writes what this renders."""

import json
from typing import Any

from agent.render.dashboard_rows import AGENT, CACHE, EXPERIENCE, LOAD, PROMISES
from agent.render.dashboard_rows_agent import AGENT_ITSELF, CANARIES, HARDWARE
from agent.render.panels import Row, Variable, datasource_variable, laid_out, variable

UID = "vllm-slo-agent"
SCHEMA_VERSION = 42  # the default of @grafana/schema 13

ROWS: tuple[Row, ...] = (PROMISES, EXPERIENCE, LOAD, CACHE, CANARIES, HARDWARE, AGENT_ITSELF)
VARIABLES = (
    Variable("agent", "Agent", "label_values(slo_agent_config_info, instance)", "Which agents' figures are shown."),
    Variable(
        "target",
        "Target",
        f"label_values(slo_agent_target_health{{{AGENT}}}, target)",
        "Which of the watched endpoints, in panels that show each one.",
    ),
    Variable(
        "model",
        "Model",
        f"label_values(slo_agent_ttft_seconds_count{{{AGENT}}}, model)",
        "Which served models, in panels that tell them apart.",
    ),
    Variable("slo", "SLO", f"label_values(slo_agent_objective_ratio{{{AGENT}}}, slo)", "Which promises."),
)


def render_dashboards() -> dict[str, str]:
    """The JSON text of every dashboard by the name of its file."""
    return {"slo-agent.json": json.dumps(_dashboard(), indent=2, ensure_ascii=False) + "\n"}


def _dashboard() -> dict[str, Any]:
    return {
        "id": None,
        "uid": UID,
        "title": "vLLM SLO agent",
        "description": "What was promised to users of vLLM, what they get, and why. Written by `slo-agent dashboards`.",
        "tags": ["vllm", "slo", "slo-agent"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "liveNow": False,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timepicker": {"refresh_intervals": ["10s", "30s", "1m", "5m"]},
        "timezone": "browser",
        "weekStart": "",
        "fiscalYearStartMonth": 0,
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "vLLM",
                "tags": ["vllm"],
                "asDropdown": True,
                "includeVars": False,
                "keepTime": True,
                "targetBlank": False,
                "icon": "external link",
                "tooltip": "Other dashboards about vLLM",
                "url": "",
            },
        ],
        "templating": {"list": [datasource_variable(), *(variable(of) for of in VARIABLES)]},
        "panels": list(laid_out(ROWS)),
    }
