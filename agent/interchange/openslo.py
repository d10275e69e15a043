"""OpenSLO v1, read: SLO and SLI documents, their alert policies' burn rates as windows.

Source of the field names: github.com/OpenSLO/OpenSLO, README of v1. What we wrote ourselves (openslo_export.py) carries
the promise in annotations of ours, and comes back as it was.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from agent.interchange.documents import (
    UNITS,
    Document,
    Imported,
    at,
    items_of,
    number_of,
    our_name,
    ratio_of,
    seconds_of,
    texts,
)
from agent.interchange.queries import UnmappableError, promise_of

VERSION = "openslo/v1"
OURS = "vllm-slo-agent/"
CALENDARS = {"1d": "day", "1w": "week", "1M": "month", "1Q": "quarter"}
SHORT_OF_LONG = 12.0  # a lone lookback window L gets the short one that the SRE Workbook pairs with it: L / 12


def is_openslo(document: Document) -> bool:
    """Whether it is of OpenSLO, whatever its version."""
    return "openslo" in str(document.get("apiVersion", "")).lower()


def read_openslo(documents: Sequence[Document], imported: Imported) -> None:
    """Add the SLOs of these documents, which may name each other."""
    named = {(str(d.get("kind")), str(at(d, "metadata", "name"))): d for d in documents}
    for document in documents:
        if document.get("apiVersion") != VERSION:
            imported.mistakes.append(f"{document.get('apiVersion')} is not read, only {VERSION}. Write it as v1")
        elif document.get("kind") == "SLO":
            _read_slo(document, named, imported)


def _read_slo(document: Document, named: dict[tuple[str, str], Document], imported: Imported) -> None:
    name = str(at(document, "metadata", "name") or "slo")
    try:
        own = at(document, "metadata", "annotations", f"{OURS}slo")
        if isinstance(own, str):
            imported.slos.append(_written_by_us(own))
        else:
            imported.slos += _slos(document, name, named)
        for policy in items_of(at(document, "spec", "alertPolicies"), "alertPolicies"):
            _read_policy(policy, named, imported)
    except (UnmappableError, ValueError) as error:
        imported.mistakes.append(f'OpenSLO SLO "{name}": {error}')


def _written_by_us(annotation: str) -> dict[str, Any]:
    slo = json.loads(annotation)
    if not isinstance(slo, dict):
        raise UnmappableError(f"the annotation {OURS}slo holds no SLO. Take it out, or export again")
    return slo


def _slos(document: Document, name: str, named: dict[tuple[str, str], Document]) -> Iterator[dict[str, Any]]:
    spec = document.get("spec")
    method = at(spec, "budgetingMethod") or "Occurrences"
    if method not in ("Occurrences", "Timeslices"):
        raise UnmappableError(
            f"budgetingMethod {method} adds up parts of slices, and the agent counts whole ones. Write Timeslices"
        )
    objectives = items_of(at(spec, "objectives"), "objectives")
    if not objectives:
        raise UnmappableError("it has no objectives")
    for place, objective in enumerate(objectives):
        indicator = _indicator(objective, named) or _indicator(spec, named)
        if indicator is None:
            raise UnmappableError("it has no indicator. Give the file that holds its indicatorRef as well")
        yield {
            "name": our_name(name, str(place + 1) if len(objectives) > 1 else ""),
            "service": our_name(str(at(spec, "service") or "llm")),
            **_promise(indicator, objective),
            "objective_ratio": _target(objective),
            **_period(spec),
            **(_slices(objective) if method == "Timeslices" else {}),
        }


def _indicator(part: object, named: dict[tuple[str, str], Document]) -> object:
    inline, ref = at(part, "indicator"), at(part, "indicatorRef")
    return at(inline, "spec") if inline is not None else at(named.get(("SLI", str(ref))), "spec")


def _promise(indicator: object, objective: object) -> dict[str, Any]:
    ratio, threshold = at(indicator, "ratioMetric"), at(indicator, "thresholdMetric")
    if ratio is not None:
        parts = ("good", "bad", "total", "raw")
        return promise_of(list(texts(*(at(ratio, part, "metricSource", "spec", "query") for part in parts))))
    query = at(threshold, "metricSource", "spec", "query") or at(threshold, "spec", "query")
    if not isinstance(query, str):
        raise UnmappableError("it has neither a ratioMetric nor a thresholdMetric with a query")
    if "quantile" in query:
        raise UnmappableError(
            "a quantile over time counts moments, not requests. Write a ratioMetric of bucket and count"
        )
    if at(objective, "op") not in ("lte", "lt"):
        raise UnmappableError(f"op is {at(objective, 'op')}: a good latency is below its value. Write lte")
    base = query.split("{")[0].strip().removesuffix("_bucket")
    return promise_of([f'{base}_bucket{{le="{at(objective, "value")}"}}', query.replace("_bucket", "_count")])


def _target(objective: object) -> float:
    if at(objective, "target") is not None:
        return ratio_of(at(objective, "target"), percent=False, where="target")
    return ratio_of(at(objective, "targetPercent"), percent=True, where="targetPercent")


def _slices(objective: object) -> dict[str, Any]:
    """Of Timeslices: each slice keeps its own target, and the objective's is the share of slices that do.

    A window without a unit is in minutes.
    """
    for key in ("timeSliceTarget", "timeSliceWindow"):
        if at(objective, key) is None:
            raise UnmappableError(f"budgetingMethod Timeslices needs {key} in each objective. Write one")
    window = str(at(objective, "timeSliceWindow"))
    return {
        "slice_seconds": seconds_of(f"{window}m" if window.isdecimal() else window, "timeSliceWindow"),
        "slice_good_ratio": ratio_of(at(objective, "timeSliceTarget"), percent=False, where="timeSliceTarget"),
    }


def _period(spec: object) -> dict[str, Any]:
    windows = items_of(at(spec, "timeWindow"), "timeWindow")
    if not windows:
        return {}
    window = windows[0]
    duration = str(at(window, "duration"))
    if at(window, "isRolling") is not False and at(window, "calendar") is None:
        return {"period_seconds": seconds_of(duration, "timeWindow[0].duration")}
    if duration not in CALENDARS:
        raise UnmappableError(f"a calendar period of {duration} is none of {', '.join(CALENDARS)}")
    return {"calendar": CALENDARS[duration], "time_zone": str(at(window, "calendar", "timeZone") or "UTC")}


def _read_policy(policy: object, named: dict[tuple[str, str], Document], imported: Imported) -> None:
    """Burn windows of its conditions. Our own export carries the short window and the tier in annotations."""
    ref = policy if isinstance(policy, str) else at(policy, "alertPolicyRef")
    document = named.get(("AlertPolicy", str(ref))) if ref else policy
    if document is None:
        imported.remarks.append(f"alert policy {ref} is in none of the files: its burn windows are not read")
    if at(document, "metadata", "annotations", f"{OURS}derived") == "true":
        return
    for entry in items_of(at(document, "spec", "conditions"), "conditions"):
        ref = at(entry, "conditionRef")
        condition = named.get(("AlertCondition", str(ref))) if ref else entry
        if condition is None:
            imported.remarks.append(f"alert condition {ref} is in none of the files: its burn window is not read")
        burn, severity = at(condition, "spec", "condition"), str(at(condition, "spec", "severity") or "page")
        if at(burn, "kind") != "burnrate":
            continue
        if at(burn, "op") in ("lte", "lt"):
            imported.remarks.append(f"op {at(burn, 'op')} of a burn rate is read as: alerts above its threshold")
        long_seconds = _long_seconds(at(burn, "lookbackWindow"))
        short = at(document, "metadata", "annotations", f"{OURS}short_seconds")
        if short is None:
            imported.remarks.append(
                f"OpenSLO v1 gives a burn window of {long_seconds:g} s no short one: {long_seconds / SHORT_OF_LONG:g} s"
            )
        is_ticket = severity.lower() in ("ticket", "warning", "low", "info", "minor")
        window = {
            "severity": "ticket" if is_ticket else "page",
            "short_seconds": number_of(short, f"{OURS}short_seconds")
            if short is not None
            else long_seconds / SHORT_OF_LONG,
            "long_seconds": long_seconds,
            "factor": number_of(at(burn, "threshold"), "threshold of a burn rate"),
        }
        if tier := at(document, "metadata", "annotations", f"{OURS}tier"):
            window["tier"] = tier
        if window not in imported.windows:
            imported.windows.append(window)


def _long_seconds(text: object) -> float:
    return seconds_of(text, "lookbackWindow") if str(text)[-1:] in UNITS else number_of(text, "lookbackWindow")
