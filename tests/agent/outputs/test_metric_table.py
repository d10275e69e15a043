"""Table, page, document and promises must name the same metrics."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from filled_view import FILLED
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agent.outputs.metric_table import AIBRIX, SELF_METRICS, SERIES_DROPPED, VIEW_METRICS, WVA_CURRENT, WVA_DESIRED
from agent.outputs.metrics_doc import metrics_document
from agent.outputs.prometheus import ViewCollector
from agent.outputs.self_metrics import SelfMetrics
from probes.sample import PageWarning, ProbeResult, Reading
from probes.spans.counts import SpanCounts

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
EVERYTHING = VIEW_METRICS + SELF_METRICS
ABSENT_IN_GOOD_HEALTH = {SERIES_DROPPED.name}
ALIASES = (WVA_DESIRED, WVA_CURRENT, AIBRIX)  # of other autoscalers, under their own names


@pytest.fixture
def page() -> str:
    registry = CollectorRegistry()
    ViewCollector(FILLED, registry, with_aliases=True)
    own = SelfMetrics(registry)
    own.configured("1.2.3", "abc")
    own.scraped(Reading("vllm-0", "vllm", 1.0, body_bytes=10, warnings=(PageWarning("nan", "one was NaN"),)))
    own.probed(ProbeResult("vllm-0", "chat", "ok", 1.0, 1.0))
    own.ticked("slis", 0.001)
    own.delivered("alertmanager", "ok")
    own.job_missed("tick")
    own.loop_lagged(0.002)
    some = {name: Counter({name: 1}) for name in ("bodies", "refused", "lost", "forwarded")}
    own.watch_spans(SpanCounts(requests=7, **some))
    return generate_latest(registry).decode()


def _series(page: str) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Name as in the table, type, and label names of every line."""
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            name = re.sub("_(bucket|count|sum)$", "", sample.name) if family.type == "histogram" else sample.name
            yield name, family.type, frozenset(sample.labels) - {"le"}


def test_a_scrape_of_a_filled_view_shows_the_whole_table_and_nothing_else(page: str) -> None:
    table = {(metric.name, metric.kind, frozenset(metric.labels)) for metric in EVERYTHING}
    healthy = {row for row in table if row[0] not in ABSENT_IN_GOOD_HEALTH}
    assert set(_series(page)) == healthy


def test_no_series_is_nan(page: str) -> None:
    assert "NaN" not in page
    assert not re.search(r" [+-]?Inf$", page, re.MULTILINE)


def test_the_document_is_the_one_generated_from_the_table() -> None:
    """Mend: python -m agent.outputs.metrics_doc > docs/metrics.md."""
    assert DOCUMENT.read_text() == metrics_document()


def test_every_metric_has_its_unit_in_its_name_and_a_sentence_of_help() -> None:
    for metric in EVERYTHING:
        assert metric.name.startswith("slo_agent_") or metric in ALIASES
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        assert metric.help.endswith("."), metric.name
        if metric.unit == "s":
            assert metric.name.endswith("_seconds")


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("slo_agent_events_total", {"slo", "service", "model", "result"}),
        ("slo_agent_burn_rate", {"slo", "window"}),
        ("slo_agent_error_budget_remaining_ratio", {"slo"}),
        ("slo_agent_ttft_seconds", {"target", "model", "source"}),
        ("slo_agent_itl_seconds", {"target", "model", "source"}),
        ("slo_agent_tpot_seconds", {"target", "model", "source"}),
        ("slo_agent_e2e_seconds", {"target", "model", "source"}),
        ("slo_agent_goodput_ratio", {"bound"}),
        ("slo_agent_kv_hit_ratio", {"tier"}),
        ("slo_agent_recommended_replicas", {"model", "role", "bound"}),
        ("slo_agent_recommendation_confidence", {"model", "role", "action"}),
        ("slo_agent_target_up", {"target"}),
        ("slo_agent_probe_share_ratio", set()),
    ],
)
def test_promised_names_keep_their_labels(name: str, labels: set[str]) -> None:
    (metric,) = [metric for metric in EVERYTHING if metric.name == name]
    assert set(metric.labels) == labels
