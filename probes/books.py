"""How to read each system's pages: its names tables, prefixes and labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from probes.names import lmcache, lmcache_inprocess, vllm
from probes.names.table import Name

System = Literal["vllm", "lmcache"]


@dataclass(frozen=True, slots=True)
class Family:
    """Names that share prefixes and labels. Of `model_labels` and `replica_labels` the first that is there counts."""

    names: tuple[Name, ...]
    prefixes: tuple[str, ...]
    model_labels: tuple[str, ...]
    engine_label: str = ""
    replica_labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Book:
    """One system's families, the main one first. A page of it always has one of the `needed` signals."""

    system: System
    families: tuple[Family, ...]
    needed: tuple[str, ...]


_IN_PROCESS = Family(lmcache_inprocess.NAMES, lmcache_inprocess.PREFIXES, lmcache_inprocess.MODEL_LABELS)
BOOKS: Mapping[System, Book] = {
    "vllm": Book(
        "vllm",
        (
            Family(vllm.NAMES, vllm.PREFIXES, (vllm.MODEL_LABEL,), vllm.ENGINE_LABEL, vllm.REPLICA_LABELS),
            _IN_PROCESS,
        ),
        ("generation_tokens_total",),
    ),
    "lmcache": Book(
        "lmcache",
        (Family(lmcache.NAMES, lmcache.PREFIXES, lmcache.MODEL_LABELS), _IN_PROCESS),
        ("cache_usage_ratio", "cache_used_bytes", "cache_lookup_tokens_total"),
    ),
}
