"""Pyrra's ServiceLevelObjective (pyrra.dev/v1alpha1).

Source of the field names: github.com/pyrra-dev/pyrra, kubernetes/api/v1alpha1.
"""

import re
from collections.abc import Iterator

from agent.interchange.documents import Document, Imported, at, our_name, ratio_of, seconds_of, texts
from agent.interchange.queries import UnmappableError, promise_of, series_of

GO_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3_600.0}
GO_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")


def is_pyrra(document: Document) -> bool:
    """Whether it is one."""
    return str(document.get("apiVersion", "")).startswith("pyrra.dev/")


def read_pyrra(document: Document, imported: Imported) -> None:
    """Add its SLO. The target is in percent."""
    spec, name = document.get("spec"), our_name(str(at(document, "metadata", "name") or "slo"))
    labels = at(document, "metadata", "labels")
    service = at(labels, "pyrra.dev/service") or at(labels, "service") or "llm"
    try:
        promise = promise_of(list(_queries(spec)))
        imported.slos.append(
            {
                "name": name,
                "service": our_name(str(service)),
                **promise,
                "objective_ratio": ratio_of(at(spec, "target"), percent=True, where="spec.target"),
                "period_seconds": seconds_of(at(spec, "window"), "spec.window"),
            }
        )
    except UnmappableError as error:
        imported.mistakes.append(f'Pyrra SLO "{name}": {error}')


def _latency_seconds(text: object) -> float:
    """Of a duration as Go writes it, such as 500ms, 2.5s or 1m30s. Raises UnmappableError."""
    parts = GO_PART.findall(str(text))
    if not parts or "".join(number + unit for number, unit in parts) != str(text):
        raise UnmappableError(f'latency is "{text}"; expected a duration such as 500ms or 2.5s')
    return sum(float(number) * GO_UNITS[unit] for number, unit in parts)


def _queries(spec: object) -> Iterator[str]:
    indicator = at(spec, "indicator")
    ratio, latency, native = (at(indicator, kind) for kind in ("ratio", "latency", "latencyNative"))
    if native is not None:
        metric = at(native, "total", "metric")
        limit = _latency_seconds(at(native, "latency"))
        for one in series_of(str(metric)):
            yield f'{one.metric}_bucket{{le="{limit:g}"}}'
        return
    if at(indicator, "bool_gauge") is not None or at(indicator, "boolGauge") is not None:
        raise UnmappableError("a gauge of good and bad times counts no requests. Write source: canary in the config")
    yield from texts(
        *(
            at(part, end, "metric")
            for part, end in ((ratio, "errors"), (ratio, "total"), (latency, "success"), (latency, "total"))
        )
    )
