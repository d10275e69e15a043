"""Pyrra's ServiceLevelObjective (pyrra.dev/v1alpha1).

Source of the field names: github.com/pyrra-dev/pyrra, kubernetes/api/v1alpha1.
"""

from collections.abc import Iterator

from agent.interchange.documents import Document, Imported, at, our_name, ratio_of, seconds_of, texts
from agent.interchange.queries import UnmappableError, promise_of, series_of


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


def _queries(spec: object) -> Iterator[str]:
    indicator = at(spec, "indicator")
    ratio, latency, native = (at(indicator, kind) for kind in ("ratio", "latency", "latencyNative"))
    if native is not None:
        metric = at(native, "total", "metric")
        limit = str(at(native, "latency") or "").removesuffix("s")
        for one in series_of(str(metric)):
            yield f'{one.metric}_bucket{{le="{limit}"}}'
        return
    if at(indicator, "bool_gauge") is not None or at(indicator, "boolGauge") is not None:
        raise UnmappableError("a gauge of good and bad times counts no requests. Write source: canary in the config")
    yield from texts(
        *(
            at(part, end, "metric")
            for part, end in ((ratio, "errors"), (ratio, "total"), (latency, "success"), (latency, "total"))
        )
    )
