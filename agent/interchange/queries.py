"""Which promise a pair of PromQL queries is: read from the vLLM series they name, never guessed from a title."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.errors import AgentError
from agent.render.counting import FINISHED, HISTOGRAM_OF

SLI_OF = {histogram: sli for sli, histogram in HISTOGRAM_OF.items()}
ALIASES = {"vllm:time_per_output_token_seconds": "itl"}  # its name before vLLM 0.11
FAILED = {"abort", "error"}
ANSWERED = {"stop", "length", "repetition"}
EVERY_MODEL = {("=~", ".*"), ("=~", ".+"), ("!=", "")}
ANY_ZEROS = re.compile(r"\(\.0\*?\)\?|(?<=\.)(\d*)0\*$")  # le=~"1(\.0)?": Prometheus 3 writes 1.0, others 1
LATE_SECONDS = 480.0  # an edge of vLLM's E2E histogram; such queries do not say when a request is late
SELECTOR = re.compile(r"(?P<metric>[a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{(?P<labels>[^}]*)\}")
NAME = re.compile(r"\bvllm:[a-z0-9_]+")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!=|!~|=)\s*"((?:[^"\\]|\\.)*)"')
NUMBER = re.compile(r"([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+\.)")


class UnmappableError(AgentError):
    """A foreign SLO that cannot be one of ours; its text says why, and what would help."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series that a query reads."""

    metric: str
    labels: Mapping[str, tuple[str, str]]  # name -> (operator, value)


def series_of(query: str) -> list[Series]:
    """Every vLLM series in a query, with its matchers."""
    found = [
        Series(match["metric"], {name: (op, value) for name, op, value in LABEL.findall(match["labels"])})
        for match in SELECTOR.finditer(query)
        if match["metric"].startswith("vllm:")
    ]
    named = {series.metric for series in found}
    return found + [Series(name, {}) for name in NAME.findall(query) if name not in named]


def promise_of(queries: Sequence[str]) -> dict[str, Any]:
    """`sli`, `threshold_seconds` and `model` of the requests that these queries, taken together, count as good of all.

    Raises UnmappableError where they read no series of ours, several histograms, several models, or no one bucket.
    """
    series = [one for query in queries for one in series_of(query)]
    if not series:
        shown = " | ".join(queries) or "nothing"
        known = ", ".join(sorted([*SLI_OF, FINISHED]))
        raise UnmappableError(f"its query reads no series of vLLM's ({shown}). Known are {known}")
    slis = {sli for one in series if (sli := _sli(one.metric)) is not None}
    if len(slis) > 1:
        raise UnmappableError(f"its queries read several histograms ({', '.join(sorted(slis))}). Write one SLO each")
    model = _model(series)
    if slis:
        return {"sli": slis.pop(), "threshold_seconds": _threshold(series), **model}
    if any(one.metric == FINISHED for one in series):
        _check_reasons(series)
        return {"sli": "availability", "threshold_seconds": LATE_SECONDS, **model}
    raise UnmappableError(f"no SLI counts {', '.join(sorted({one.metric for one in series}))}")


def _sli(metric: str) -> str | None:
    base = re.sub(r"_(bucket|count|sum)$", "", metric)
    return SLI_OF.get(base) or ALIASES.get(base)


def _threshold(series: Sequence[Series]) -> float:
    edges = {seconds for one in series if one.metric.endswith("_bucket") for seconds in _edges(one)}
    if len(edges) != 1:
        shown = ", ".join(f"{edge:g}" for edge in sorted(edges)) or "none"
        raise UnmappableError(f'its queries must name one bucket, such as le="2.5"; they name {shown}')
    return edges.pop()


def _edges(one: Series) -> Iterator[float]:
    operator, value = one.labels.get("le", ("=", ""))
    if value in ("", "+Inf"):
        return
    plain = value.replace("\\\\", "\\").replace("\\.", ".")
    if operator == "=~":
        plain = ANY_ZEROS.sub(r"\1", plain)
    choices = plain.strip("()").split("|") if operator == "=~" else [plain]
    edges = {float(number[1]) for choice in choices if (number := NUMBER.fullmatch(choice))}
    if operator not in ("=", "=~") or len(edges) != 1 or not all(map(NUMBER.fullmatch, choices)):
        raise UnmappableError(f'le{operator}"{value}" names no one bucket. Write le="2.5"')
    yield edges.pop()


def _check_reasons(series: Sequence[Series]) -> None:
    """Reasons that a query calls bad must be those that we do, or those it calls good be those that end an answer."""
    for one in series:
        operator, value = one.labels.get("finished_reason", ("", ""))
        named = set(value.split("|")) if value else set()
        told = named <= FAILED or named <= ANSWERED
        if named and (operator not in ("=", "=~", "!=", "!~") or not told):
            raise UnmappableError(f'finished_reason{operator}"{value}" mixes what ended well with what did not')


def _model(series: Sequence[Series]) -> dict[str, str]:
    """The model that all of them name; {} where none names one, or every one is meant."""
    told = {one.labels["model_name"] for one in series if "model_name" in one.labels} - EVERY_MODEL
    if not told:
        return {}
    (operator, value), *others = sorted(told)
    if others or operator != "=":
        shown = ", ".join(f'model_name{op}"{name}"' for op, name in sorted(told))
        raise UnmappableError(f'{shown} names no one model. Write one SLO each, with model_name="NAME"')
    return {"model": value}
