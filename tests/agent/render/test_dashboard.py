"""The dashboard: its queries mean something to the agent, and it keeps the rules of a dashboard that one can provision.

The rules are those of the public linters for dashboards as code: https://github.com/grafana/dashboard-linter
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from agent.outputs.metric_table import SELF_METRICS, VIEW_METRICS, Metric
from agent.render.dashboard import render_dashboards

COMMITTED = Path(__file__).parents[3] / "dashboards"
(TEXT,) = render_dashboards().values()
DASHBOARD: dict[str, Any] = json.loads(TEXT)
METRICS = {metric.name: metric for metric in (*VIEW_METRICS, *SELF_METRICS)}
SCRAPE_LABELS = {"instance", "job", "le"}


def panels() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        yield from panel.get("panels", [])
        if panel["type"] != "row":
            yield panel


def queries() -> list[tuple[str, str, str]]:
    """Every (panel title, expression, legend)."""
    return [(panel["title"], one["expr"], one["legendFormat"]) for panel in panels() for one in panel["targets"]]


def substituted(expr: str) -> str:
    """As Grafana would send it with All chosen."""
    return re.sub(r"\$\w+", ".*", expr.replace("$__rate_interval", "1m"))


def metric_of(name: str) -> Metric:
    base = re.sub(r"_(bucket|count|sum)$", "", name)
    return METRICS[name] if name in METRICS else METRICS[base]


def test_the_committed_dashboard_is_what_the_code_renders() -> None:
    """After a change: make dashboards."""
    for name, text in render_dashboards().items():
        assert (COMMITTED / name).read_text(encoding="utf-8") == text


@pytest.mark.parametrize(("title", "expr", "legend"), queries())
def test_every_query_is_promql_over_metrics_and_labels_that_the_agent_serves(
    title: str, expr: str, legend: str
) -> None:
    """A metric that was renamed, or a label that it has not, would show as an empty panel and nothing else."""
    promql_parser.parse(substituted(expr))
    names = set(re.findall(r"\bslo_agent_\w+", expr))
    assert names, title
    grouped = re.findall(r"by \(([^)]*)\)", expr)
    for name in names:
        metric = metric_of(name)
        matched = set(re.findall(r'(\w+)(?:=~|!~|!=|=)"', expr))
        wanted = matched | {label.strip() for group in grouped for label in group.split(",")}
        assert wanted <= {*metric.labels, *SCRAPE_LABELS}, title
    shown = set(re.findall(r"{{(\w+)}}", legend))
    kept = {label.strip() for group in grouped for label in group.split(",")}
    assert not grouped or shown <= kept, f"{title}: the legend names a label that the query sums away"


@pytest.mark.parametrize(("title", "expr", "legend"), queries())
def test_counters_are_read_through_rate_and_gauges_are_not(title: str, expr: str, legend: str) -> None:
    """A bare counter is a lifetime total that never moves; the rate of a gauge means nothing."""
    for name in re.findall(r"\bslo_agent_\w+", expr):
        is_rated = bool(re.search(rf"(?:rate|increase)\({name}\{{[^}}]*\}}\[\$__rate_interval\]\)", expr))
        assert is_rated == (metric_of(name).kind in ("counter", "histogram")), title


@pytest.mark.parametrize("panel", list(panels()), ids=lambda panel: panel["title"])
def test_a_panel_explains_itself(panel: dict[str, Any]) -> None:
    """Title, what it means in a sentence, a unit, and the one data source by its variable."""
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"
    assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])


def test_titles_and_ids_are_unique() -> None:
    ids = [panel["id"] for panel in [*panels(), *(row for row in DASHBOARD["panels"] if row["type"] == "row")]]
    titles = [panel["title"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    assert len(set(titles)) == len(titles)


def test_panels_do_not_overlap_and_stay_in_the_grid() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_it_can_be_provisioned_and_not_be_edited() -> None:
    """A fixed uid, no id, no inputs of the import dialogue, read-only, small enough for a ConfigMap."""
    assert DASHBOARD["id"] is None
    assert re.fullmatch(r"[a-z0-9-]{1,40}", DASHBOARD["uid"])
    assert DASHBOARD["editable"] is False
    assert "__inputs" not in DASHBOARD
    assert DASHBOARD["schemaVersion"] == 42
    assert len(TEXT.encode()) < 1_000_000


def test_variables_offer_all_and_are_used() -> None:
    """One data source; every other choice has All, refreshes with the time range, and is matched by =~."""
    kinds = [variable["type"] for variable in DASHBOARD["templating"]["list"]]
    assert kinds == ["datasource"] + ["query"] * 4
    everything = TEXT
    for variable in DASHBOARD["templating"]["list"][1:]:
        assert (variable["includeAll"], variable["multi"], variable["allValue"]) == (True, True, ".*")
        assert variable["refresh"] == 2
        assert variable["datasource"]["uid"] == "${datasource}"
        assert f'=~\\"${variable["name"]}\\"' in everything
        inner = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
        assert inner is not None
        promql_parser.parse(substituted(inner[1]))
        name = re.split(r"[{ ]", inner[1])[0]
        assert inner[2] in {*metric_of(name).labels, "instance"}
    assert not re.search(r'[^~]=\\"\$', everything), "a multi-value variable needs =~"


def test_seven_rows_in_the_order_of_the_questions() -> None:
    """Promises, users, load, cache, canaries, hardware, ourselves."""
    assert [row["title"] for row in DASHBOARD["panels"] if row["type"] == "row"] == [
        "Promises: burn and budget",
        "What users feel",
        "Load and capacity",
        "KV cache",
        "Canaries",
        "GPUs",
        "The agent itself",
    ]
