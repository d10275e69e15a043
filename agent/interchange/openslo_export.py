"""OpenSLO v1, written: one SLO document each, its counters as PromQL, one alert policy for each burn pair.

v1 has one condition a policy and one window a condition: a pair's short window stands in an annotation of ours. So does
the SLO as our config writes it, by which `slos import` gets back exactly what was exported.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from agent.config import Config
from agent.config_slo import Slo as SloItem
from agent.interchange.openslo import OURS, VERSION
from agent.model import BurnPair, Slo
from agent.planning import make_plan
from agent.render.counting import EVENTS, FINISHED, HISTOGRAM_OF, who_counts
from agent.render.promql import duration, edge_pattern, selector

CALENDARS = {"day": "1d", "week": "1w", "month": "1M", "quarter": "1Q"}
FIRST_DAY = "2024-01-01 00:00:00"  # a Monday, and the first of a month, a quarter and a year


def openslo_documents(config: Config) -> Iterator[dict[str, Any]]:
    """A service each, then the SLOs."""
    items = {item.name: item for item in config.slos}
    plan = make_plan(config, ())
    for service in dict.fromkeys(slo.service for slo in plan.slos):
        yield {
            "apiVersion": VERSION,
            "kind": "Service",
            "metadata": {"name": _dns(service), "displayName": service},
            "spec": {"description": f"{service}, served by vLLM"},
        }
    for slo in plan.slos:
        yield _document(slo, items[slo.name], are_derived=not config.burn.windows)


def _document(slo: Slo, item: SloItem, *, are_derived: bool) -> dict[str, Any]:
    own = item.model_dump(mode="json", exclude_defaults=True)
    return {
        "apiVersion": VERSION,
        "kind": "SLO",
        "metadata": {
            "name": _dns(slo.name),
            "displayName": slo.name,
            "annotations": {f"{OURS}slo": json.dumps(own, sort_keys=True)},
        },
        "spec": {
            "description": slo.policy or f"{slo.sli} of {slo.service}",
            "service": _dns(slo.service),
            "indicator": {"metadata": {"name": f"{_dns(slo.name)}-sli"}, "spec": {"ratioMetric": _ratio(slo)}},
            "timeWindow": [_window(slo)],
            "budgetingMethod": "Timeslices" if slo.slice_seconds else "Occurrences",
            "objectives": [{"displayName": slo.name, "target": slo.objective_ratio, **_slices(slo)}],
            "alertPolicies": [_policy(slo, pair, are_derived=are_derived) for pair in slo.pairs],
        },
    }


def _ratio(slo: Slo) -> dict[str, Any]:
    """Counters, as they are: whoever reads them takes their rise over the window."""
    if slo.source != "engine" or slo.sli not in (*HISTOGRAM_OF, "availability"):
        who = [("slo", "=", slo.name), ("service", "=", slo.service)]
        bad = "bad|unknown" if slo.undecided == "bad" else "bad"
        return _counters("bad", selector(EVENTS, [*who, ("result", "=~", bad)]), selector(EVENTS, who))
    who = list(who_counts(slo))
    if slo.sli == "availability":
        failed = selector(FINISHED, [*who, ("finished_reason", "=~", "abort|error")])
        return _counters("bad", failed, selector(FINISHED, who))
    histogram = HISTOGRAM_OF[slo.sli]
    within = selector(f"{histogram}_bucket", [*who, ("le", "=~", edge_pattern(slo.threshold_seconds or 0.0))])
    return _counters("good", within, selector(f"{histogram}_count", who))


def _counters(word: str, part: str, total: str) -> dict[str, Any]:
    return {"counter": True, word: _source(part), "total": _source(total)}


def _source(series: str) -> dict[str, Any]:
    return {"metricSource": {"type": "Prometheus", "spec": {"query": f"sum({series})"}}}


def _window(slo: Slo) -> dict[str, Any]:
    if slo.calendar is None:
        return {"duration": duration(slo.period_seconds), "isRolling": True}
    calendar = {"startTime": FIRST_DAY, "timeZone": slo.time_zone}
    return {"duration": CALENDARS[slo.calendar], "isRolling": False, "calendar": calendar}


def _slices(slo: Slo) -> dict[str, Any]:
    if slo.slice_seconds is None:
        return {}
    return {"timeSliceTarget": slo.slice_good_ratio or 1.0, "timeSliceWindow": duration(slo.slice_seconds)}


def _policy(slo: Slo, pair: BurnPair, *, are_derived: bool) -> dict[str, Any]:
    name = f"{_dns(slo.name)}-{pair.severity}-{pair.tier}"
    notes = {"short_seconds": f"{pair.short_seconds:g}", "tier": pair.tier, "derived": str(are_derived).lower()}
    condition = {
        "kind": "burnrate",
        "op": "gt",
        "threshold": pair.factor,
        "lookbackWindow": duration(pair.long_seconds),
        "alertAfter": "0m",
    }
    return {
        "kind": "AlertPolicy",
        "metadata": {"name": name, "annotations": {f"{OURS}{key}": value for key, value in notes.items()}},
        "spec": {
            "description": f"and above {pair.factor:g} over {duration(pair.short_seconds)} as well",
            "alertWhenBreaching": True,
            "alertWhenResolved": True,
            "alertWhenNoData": False,
            "conditions": [
                {
                    "kind": "AlertCondition",
                    "metadata": {"name": f"{name}-burn"},
                    "spec": {"severity": pair.severity, "condition": condition},
                }
            ],
            "notificationTargets": [],
        },
    }


def _dns(name: str) -> str:
    """A name by RFC 1123, as OpenSLO wants it."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-") or "slo"
