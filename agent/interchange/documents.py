"""What all foreign SLO specs have in common: YAML documents, durations, targets, names."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path
from typing import Any

import yaml

from agent.config_base import DAY_SECONDS
from agent.interchange.queries import UnmappableError

UNITS = {"m": 60.0, "h": 3_600.0, "d": DAY_SECONDS, "w": 7 * DAY_SECONDS, "M": 30 * DAY_SECONDS, "Q": 90 * DAY_SECONDS}
Document = Mapping[str, Any]


@dataclass(slots=True)
class Imported:
    """What came of it: SLOs and burn windows as the config writes them, remarks, and what could not be mapped."""

    slos: list[dict[str, Any]] = field(default_factory=list)
    windows: list[dict[str, Any]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)


def documents_in(path: Path) -> list[Document]:
    """The YAML documents of a file. Raises UnmappableError where it is none, or a document is no mapping."""
    try:
        found = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnmappableError(f"{path}: is no YAML: {str(error).splitlines()[0]}") from None
    documents = [document for document in found if document is not None]
    if not documents or not all(isinstance(document, dict) for document in documents):
        raise UnmappableError(f"{path}: expected documents such as `apiVersion: openslo/v1`")
    return documents


def seconds_of(text: object, where: str) -> float:
    """Seconds of "30d", "4w" or "1M" (a month of 30 days). Raises UnmappableError."""
    match = re.fullmatch(r"\s*([0-9]+)\s*([mhdwMQ])\s*", str(text))
    if match is None:
        raise UnmappableError(f'{where} is "{text}"; expected a duration such as 30d or 4w')
    return int(match[1]) * UNITS[match[2]]


def ratio_of(value: object, *, percent: bool, where: str) -> float:
    """A target as a ratio between 0 and 1. Raises UnmappableError for 1, 100 % and what is no number."""
    try:
        number = float(str(value)) / (100 if percent else 1)
    except ValueError:
        raise UnmappableError(f'{where} is "{value}"; expected a number') from None
    if not 0 < number < 1:
        mend = "it leaves no budget; write 99.9 or less" if percent else "expected a ratio such as 0.999"
        raise UnmappableError(f"{where} is {value}: {mend}")
    return round(number, 12)


def our_name(*parts: str) -> str:
    """A name that our config takes, made of foreign ones."""
    text = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(part for part in parts if part)).strip("-._")
    return text[:63].strip("-._") or "slo"


def texts(*values: object) -> Iterator[str]:
    """Those of the values that are text."""
    yield from (value for value in values if isinstance(value, str))


def items_of(value: object, where: str) -> list[Any]:
    """The items of a list, mappings or names; none of null. Raises UnmappableError where it is another thing."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict | str) for item in value):
        raise UnmappableError(f"{where} is {str(value)[:40]!r}; expected a list of mappings")
    return value


def number_of(value: object, where: str) -> float:
    """A finite number above 0. Raises UnmappableError."""
    try:
        number = float(str(value))
    except ValueError:
        number = nan
    if not 0 < number < inf:
        raise UnmappableError(f"{where} is {str(value)[:40]!r}; expected a number above 0")
    return number


def at(document: object, *path: str) -> Any:
    """What stands at a path; None where there is nothing."""
    for part in path:
        document = document.get(part) if isinstance(document, dict) else None
    return document
