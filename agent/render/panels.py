"""What a dashboard is made of, and how each part is spelt in Grafana's JSON (classic schema, version 42).

Source: the public TypeScript types of @grafana/schema 13; only fields that Grafana 10 and newer read alike are used.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRID_COLUMNS = 24
PANEL_HEIGHT = 8

Kind = Literal["timeseries", "stat", "bargauge", "heatmap", "table"]


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression; `legend` names its series. `instant` asks for the newest value alone."""

    expr: str
    legend: str = ""
    instant: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `unit` is Grafana's id of a unit; `width` is in columns of 24.

    `bounds` draws series whose legend ends in "low" or "high" thin and dashed: they are limits, not measurements.
    `steps` are colours from a value on, such as ((None, "red"), (0.2, "green")).
    """

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: Kind = "timeseries"
    width: int = 8
    minimum: float | None = 0
    maximum: float | None = None
    bounds: bool = False
    steps: tuple[tuple[float | None, str], ...] = ()
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A titled stripe of panels; `collapsed` ones load nothing until they are opened."""

    title: str
    panels: tuple[Panel, ...]
    collapsed: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the head of the dashboard, filled by a query; All is every value, and none as well."""

    name: str
    label: str
    query: str
    description: str


def laid_out(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Rows and panels as Grafana lists them, placed from left to right and from top to bottom."""
    number, top = 1, 0
    for row in rows:
        inside: list[dict[str, Any]] = []
        head = {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": row.collapsed,
            "gridPos": {"h": 1, "w": GRID_COLUMNS, "x": 0, "y": top},
            "panels": inside if row.collapsed else [],
        }
        yield head
        number, top, left = number + 1, top + 1, 0
        for panel in row.panels:
            if left + panel.width > GRID_COLUMNS:
                top, left = top + PANEL_HEIGHT, 0
            place = {"h": PANEL_HEIGHT, "w": panel.width, "x": left, "y": top}
            inside.append(_panel(panel, number, place))
            number, left = number + 1, left + panel.width
        top += PANEL_HEIGHT
        if not row.collapsed:
            yield from inside


def variable(of: Variable) -> dict[str, Any]:
    """A multi-value query variable whose All also matches series without the label."""
    return {
        "type": "query",
        "name": of.name,
        "label": of.label,
        "description": of.description,
        "datasource": DATASOURCE,
        "definition": of.query,
        "query": {"query": of.query, "refId": f"variable-{of.name}"},
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "refresh": 2,
        "sort": 1,
        "regex": "",
        "hide": 0,
        "options": [],
    }


def datasource_variable() -> dict[str, Any]:
    """The one place where a dashboard says which Prometheus it reads."""
    return {
        "type": "datasource",
        "name": "datasource",
        "label": "Data source",
        "description": "The Prometheus that scrapes the agents.",
        "query": "prometheus",
        "current": {},
        "multi": False,
        "includeAll": False,
        "refresh": 1,
        "regex": "",
        "hide": 0,
        "options": [],
    }


def _panel(panel: Panel, number: int, place: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": dict(place),
        "targets": [_target(query, panel, place_in) for place_in, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _bound_overrides() if panel.bounds else []},
        "options": _OPTIONS[panel.kind],
        **({"transformations": _TABLE_TRANSFORMATIONS} if panel.kind == "table" else {}),
    }


def _target(query: Query, panel: Panel, number: int) -> dict[str, Any]:
    shape = {"heatmap": "heatmap", "table": "table"}.get(panel.kind, "time_series")
    return {
        "refId": chr(ord("A") + number),
        "datasource": DATASOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "format": shape,
        "instant": query.instant,
        "range": not query.instant,
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    limits = {name: value for name, value in (("min", panel.minimum), ("max", panel.maximum)) if value is not None}
    steps = [{"value": value, "color": color} for value, color in panel.steps or ((None, "green"),)]
    drawing: dict[str, Any] = {}
    if panel.kind == "timeseries":
        drawing = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 10 if panel.stacked else 0,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "line" if panel.steps else "off"},
        }
    return {
        "unit": panel.unit,
        **limits,
        "thresholds": {"mode": "absolute", "steps": steps},
        "color": {"mode": "thresholds" if panel.kind in ("stat", "bargauge") else "palette-classic"},
        "custom": drawing,
    }


def _bound_overrides() -> list[dict[str, Any]]:
    return [
        {
            "matcher": {"id": "byRegexp", "options": "/(low|high)$/"},
            "properties": [
                {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [4, 4]}},
                {"id": "custom.lineWidth", "value": 1},
            ],
        },
        {
            "matcher": {"id": "byRegexp", "options": "/value$/"},
            "properties": [{"id": "custom.lineWidth", "value": 2}],
        },
    ]


_OPTIONS: Mapping[Kind, dict[str, Any]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "background",
        "graphMode": "none",
        "textMode": "value_and_name",
    },
    "bargauge": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "orientation": "horizontal",
        "displayMode": "basic",
    },
    "heatmap": {
        "calculate": False,
        "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
        "yAxis": {"unit": "s"},
        "cellGap": 1,
        "tooltip": {"mode": "single"},
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
}
_TABLE_TRANSFORMATIONS = [
    {"id": "organize", "options": {"excludeByName": {"Time": True, "Value": True, "__name__": True}}},
]
