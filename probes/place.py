"""Where a series of a page belongs: worked out once, from its name and labels."""

import math
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from probes.books import Book, Family
from probes.names import vllm
from probes.names.table import Name

PROCESS_START = "process_start_time_seconds"
CAPACITY = Name("kv_capacity_tokens", "gauge", (vllm.CONFIG_INFO,), "tokens", "Tokens that fit into the KV cache.")
SETTING = Name("engine_setting", "gauge", (vllm.CONFIG_INFO,), "state", "What it was started with: 1.", label="setting")
WITHOUT_TOTAL = 100  # added to the rank of a counter under its name without _total


class Place(NamedTuple):
    """Where a number of a page belongs. `rank` is the name's place in its row: the lowest present one counts.

    `series` tells series apart that differ in labels we do not keep; it is "" unless the row says how they become one.
    `fixed` is a value that stands in the labels; None where the sample's own counts. `settings` are further labels that
    say something by themselves, as name=value.
    """

    row: Name | None  # None: the start of the process
    part: Literal["value", "bucket", "sum"]
    engine: str = ""
    model: str = ""
    label: str = ""
    series: str = ""
    edge: float = 0.0
    rank: int = 0
    fixed: float | None = None
    settings: tuple[str, ...] = ()


class Placer:
    """The places of one system's series."""

    def __init__(self, book: Book) -> None:
        self._families = [(family, dict(_exposed_names(family))) for family in book.families]
        self._has_capacity = book.system in ("vllm", "dynamo_worker")

    def is_needed(self, exposed: str) -> bool:
        """Whether series of that name can matter."""
        return exposed == PROCESS_START or self._row(exposed) is not None or self._is_capacity(exposed)

    def place(self, exposed: str, labels: Mapping[str, str]) -> Place | None:
        """None for a series that no signal needs, or that makes no sense (a bucket without a number for its edge)."""
        if exposed == PROCESS_START:
            return Place(None, "value")
        if self._is_capacity(exposed):
            tokens = _capacity_tokens(labels)
            engine = _engine(self._families[0][0], labels)
            return (
                None if tokens is None else Place(CAPACITY, "value", engine, fixed=tokens, settings=_settings(labels))
            )
        found = self._row(exposed)
        return None if found is None else _row_place(*found, exposed, labels)

    def _row(self, exposed: str) -> tuple[Family, Name, int] | None:
        for family, rows in self._families:
            for prefix in family.prefixes:
                if exposed.startswith(prefix) and exposed[len(prefix) :] in rows:
                    row, rank = rows[exposed[len(prefix) :]]
                    is_ray = prefix.startswith(vllm.RAY_PREFIX)
                    return (family, row, rank) if rank < WITHOUT_TOTAL or is_ray else None
        return None

    def _is_capacity(self, exposed: str) -> bool:
        return self._has_capacity and any(exposed == p + vllm.CONFIG_INFO for p in self._families[0][0].prefixes)


def _exposed_names(family: Family) -> Iterator[tuple[str, tuple[Name, int]]]:
    """What stands on the page, without prefix, and whose it is."""
    for row in family.names:
        for rank, name in enumerate(row.names):
            if row.kind == "histogram":
                yield f"{name}_bucket", (row, rank)
                yield f"{name}_sum", (row, rank)
            else:
                yield name, (row, rank)
            if row.kind == "counter" and name.endswith("_total"):
                yield name.removesuffix("_total"), (row, rank + WITHOUT_TOTAL)


def _row_place(family: Family, row: Name, rank: int, exposed: str, labels: Mapping[str, str]) -> Place | None:
    if row.where is not None and labels.get(row.where[0]) != row.where[1]:
        return None
    model = next((labels[label] for label in family.model_labels if label in labels), "")
    engine = _engine(family, labels)
    label = (labels.get(row.label) or row.blank) if row.label else ""
    series = _series(family, row, labels) if row.over else ""
    if row.kind != "histogram":
        return Place(row, "value", engine, model, label, series, 0.0, rank)
    if exposed.endswith("_sum"):
        return Place(row, "sum", engine, model, label, series, 0.0, rank)
    edge = _number(labels.get("le", ""))
    return None if edge is None else Place(row, "bucket", engine, model, label, series, edge * row.scale, rank)


def _engine(family: Family, labels: Mapping[str, str]) -> str:
    """The data-parallel rank, behind the replica's name where a page holds several replicas."""
    engine = labels.get(family.engine_label, "") if family.engine_label else ""
    replica = next((labels[label] for label in family.replica_labels if labels.get(label)), "")
    return f"{replica}/{engine or '0'}" if replica else engine


def _series(family: Family, row: Name, labels: Mapping[str, str]) -> str:
    kept = {*family.model_labels, row.label, "le"}
    return ",".join(f"{name}={labels[name]}" for name in sorted(labels) if name not in kept)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _settings(labels: Mapping[str, str]) -> tuple[str, ...]:
    said = ((name, labels.get(name, "")) for name in vllm.SETTINGS)
    return tuple(f"{name}={value}" for name, value in said if value not in ("", "None"))


def _capacity_tokens(labels: Mapping[str, str]) -> float | None:
    """KV capacity in tokens, as told or as blocks times their size; None where the labels do not say, or no number
    of tokens above 0.
    """
    size = labels.get("kv_cache_size_tokens", "")
    blocks, block_size = _number(labels.get("num_gpu_blocks", "")), _number(labels.get("block_size", ""))
    product = None if blocks is None or block_size is None else blocks * block_size
    tokens = _number(size) if size not in ("", "None") else product
    return tokens if tokens is not None and 0 < tokens < math.inf else None
