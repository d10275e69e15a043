"""Sloth's specs: `version: prometheus/v1`, and the same as a PrometheusServiceLevel of Kubernetes.

Source of the field names: github.com/slok/sloth, pkg/prometheus/api/v1 and pkg/kubernetes/api/sloth/v1.
"""

from collections.abc import Iterator
from typing import Any

from agent.interchange.documents import Document, Imported, at, items_of, our_name, ratio_of, texts
from agent.interchange.queries import UnmappableError, promise_of

PLAIN, KIND = "prometheus/v1", "PrometheusServiceLevel"


def is_sloth(document: Document) -> bool:
    """Whether it is one of these."""
    return document.get("version") == PLAIN or document.get("kind") == KIND


def read_sloth(document: Document, imported: Imported) -> None:
    """Add its SLOs. The objective is in percent; the period is that of Sloth's command line, 30 days by default."""
    spec = document.get("spec") if document.get("kind") == KIND else document
    service = at(spec, "service") or "llm"
    try:
        slos = items_of(at(spec, "slos"), "slos")
    except UnmappableError as error:
        imported.mistakes.append(f'Sloth service "{service}": {error}')
        return
    for index, slo in enumerate(slos):
        name = our_name(str(at(slo, "name") or index))
        try:
            imported.slos.append(_slo(slo, name, our_name(str(service))))
        except UnmappableError as error:
            imported.mistakes.append(f'Sloth SLO "{name}": {error}')
    imported.remarks.append(
        "Sloth: the period is taken to be 30 days; alert names and labels are the agent's (docs/alerts.md)"
    )


def _slo(slo: object, name: str, service: str) -> dict[str, Any]:
    objective = ratio_of(at(slo, "objective"), percent=True, where="objective")
    return {
        "name": name,
        "service": service,
        **promise_of(list(_queries(slo))),
        "objective_ratio": objective,
        **({"tickets_only": True} if _has_no_page(slo) else {}),
    }


def _queries(slo: object) -> Iterator[str]:
    sli = at(slo, "sli")
    if at(sli, "plugin") is not None:
        raise UnmappableError("an SLI plugin's queries stand elsewhere. Write sli.events with them")
    events, raw = at(sli, "events"), at(sli, "raw")
    yield from texts(*(at(events, key) for key in ("error_query", "errorQuery", "total_query", "totalQuery")))
    yield from texts(at(raw, "error_ratio_query"), at(raw, "errorRatioQuery"))


def _has_no_page(slo: object) -> bool:
    alerting = at(slo, "alerting")
    return bool(at(alerting, "page_alert", "disable") or at(alerting, "pageAlert", "disable"))
