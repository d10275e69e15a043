"""How to read each system's pages: its names tables, prefixes and labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from probes.names import (
    dcgm,
    dynamo,
    llm_d_epp,
    lmcache,
    lmcache_inprocess,
    mooncake,
    production_stack,
    vllm,
    vllm_router,
)
from probes.names.table import Name

System = Literal[
    "vllm", "lmcache", "mooncake", "dynamo_frontend", "dynamo_worker", "llm_d_epp", "vllm_router",
    "production_stack_router", "dcgm",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Family:
    """Names that share prefixes and labels. Of `model_labels` and `replica_labels` the first that is there counts.

    An optional family's names are not missed on a page that has none of them.
    """

    names: tuple[Name, ...]
    prefixes: tuple[str, ...] = ("",)
    model_labels: tuple[str, ...] = ()
    engine_label: str = ""
    replica_labels: tuple[str, ...] = ()
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Book:
    """One system's families, the main one first. A page of it always has one of the `needed` signals, or, where none
    is named, any.
    """

    system: System
    families: tuple[Family, ...]
    needed: tuple[str, ...] = ()


_IN_PROCESS = Family(
    lmcache_inprocess.NAMES, lmcache_inprocess.PREFIXES, lmcache_inprocess.MODEL_LABELS, is_optional=True
)
_ENGINE = Family(vllm.NAMES, vllm.PREFIXES, (vllm.MODEL_LABEL,), vllm.ENGINE_LABEL, vllm.REPLICA_LABELS)
BOOKS: Final[Mapping[System, Book]] = {
    "vllm": Book("vllm", (_ENGINE, _IN_PROCESS), ("generation_tokens_total",)),
    "lmcache": Book(
        "lmcache",
        (Family(lmcache.NAMES, lmcache.PREFIXES, lmcache.MODEL_LABELS), _IN_PROCESS),
        ("cache_usage_ratio", "cache_used_bytes", "cache_lookup_tokens_total"),
    ),
    "mooncake": Book("mooncake", (Family(mooncake.NAMES), Family(mooncake.CLIENT_NAMES, is_optional=True))),
    "dynamo_frontend": Book("dynamo_frontend", (Family(dynamo.FRONTEND_NAMES, model_labels=dynamo.MODEL_LABELS),)),
    "dynamo_worker": Book(
        "dynamo_worker", (_ENGINE, Family(dynamo.WORKER_NAMES, model_labels=dynamo.MODEL_LABELS), _IN_PROCESS)
    ),
    "llm_d_epp": Book("llm_d_epp", (Family(llm_d_epp.NAMES, model_labels=llm_d_epp.MODEL_LABELS),)),
    "vllm_router": Book("vllm_router", (Family(vllm_router.NAMES),)),
    "production_stack_router": Book(
        "production_stack_router", (Family(production_stack.NAMES, model_labels=production_stack.MODEL_LABELS),)
    ),
    "dcgm": Book("dcgm", (Family(dcgm.NAMES, engine_label=dcgm.GPU_LABEL, replica_labels=(dcgm.MIG_LABEL,)),)),
}
