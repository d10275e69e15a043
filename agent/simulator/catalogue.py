"""What a vLLM 0.32 metrics page holds: names, types, help, labels and buckets, taken from captured pages.

`vllm_0_32.json` was derived from pages of real servers (0.32 on CPU, 0.32 with LMCache; the NIXL families from 0.24
with P/D on two H200s); `tests/agent/simulator/test_catalogue.py` derives it again and compares. The groups kv_residency
and kv_offload are from the code of 0.32 (v1/metrics, kv_offload): no page of ours has them.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent.simulator.histogram import one_two_five

CATALOGUE: Mapping[str, Any] = json.loads((Path(__file__).parent / "vllm_0_32.json").read_text(encoding="utf-8"))
VERSION: str = CATALOGUE["version"]


def families(groups: Iterable[str]) -> list[Mapping[str, Any]]:
    """The families of the page, connectors first, as vLLM registers them; `groups` adds connectors' and others."""
    ours = [*CATALOGUE["engine"]]
    at = next(index for index, family in enumerate(ours) if family["name"].startswith("vllm:"))
    return [*ours[:at], *(family for group in groups for family in CATALOGUE[group]), *ours[at:]]


def histogram_edges(
    max_model_len: int, groups: Iterable[str] = (), overrides: Mapping[str, tuple[float, ...]] | None = None
) -> dict[str, tuple[float, ...]]:
    """Bucket edges by histogram name without `vllm:`; token buckets run to the longest model length.

    `overrides` stands for vLLM's --custom-histogram-buckets.
    """
    edges = {}
    for family in families(groups):
        if family["type"] == "histogram" and family["name"].startswith("vllm:"):
            own = family["edges"]
            edges[short_name(family["name"])] = one_two_five(max_model_len) if own == "tokens" else tuple(own)
    return {**edges, **(overrides or {})}


def short_name(name: str) -> str:
    """A family's name without `vllm:`."""
    return name.removeprefix("vllm:")
