"""The metrics page of an LMCache server, as 0.5.6 writes it: no `_created` series, its own names and labels."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.simulator.page import histogram_lines, label_text, number
from agent.simulator.tier import CacheTier

_FAMILIES: list[Mapping[str, Any]] = json.loads(
    (Path(__file__).parent / "lmcache_0_5.json").read_text(encoding="utf-8")
)["families"]


def lmcache_page(tier: CacheTier, model: str) -> str:
    """The page now. A chunk's life is told by each of its blocks, so counts there are of blocks."""
    lives = {
        "lmcache_mp_l1_chunk_lifetime_seconds": tier.diary.lifetime_seconds,
        "lmcache_mp_l1_chunk_idle_before_evict_seconds": tier.diary.idle_before_evict_seconds,
        "lmcache_mp_l1_chunk_reuse_gap_seconds": tier.diary.reuse_gap_seconds,
        "lmcache_mp_l1_chunk_evict_reuse_gap_seconds": tier.diary.evict_reuse_gap_seconds,
    }
    per_chunk = max(1, tier.chunk_tokens // tier.block_tokens)
    values = {
        "lmcache_mp_l1_write_chunks_total": tier.written_blocks // per_chunk,
        "lmcache_mp_l1_read_chunks_total": tier.read_blocks // per_chunk,
        "lmcache_mp_l1_evicted_chunks_total": tier.evicted_blocks // per_chunk,
        "lmcache_mp_l1_memory_usage_bytes": tier.used_bytes,
        "lmcache_mp_l1_usage_ratio": tier.usage_ratio,
        "lmcache_mp_lookup_requested_tokens_total": tier.requested_tokens,
        "lmcache_mp_lookup_hit_tokens_total": tier.hit_tokens,
        "lmcache_mp_lookups_requests_total": tier.lookups,
        "lmcache_mp_lookup_hit_l1_tokens_total": tier.hit_tokens,
        "lmcache_mp_lookup_hit_l1_keys_total": tier.hit_tokens // tier.chunk_tokens,
    }
    identity = {"model_name": model, "cache_salt": ""}
    lines = []
    for family in _FAMILIES:
        name, kind = family["name"], family["type"]
        if family.get("is_written_when_observed") and not lives[name].count:
            continue
        lines.append(f"# HELP {name} {family['help']}\n# TYPE {name} {kind}")
        own = {label: identity[label] for label in family["labels"] if label in identity}
        for more in family.get("series") or [{}]:
            labels = {**own, **more}
            if name in lives:
                lines.extend(histogram_lines(name, label_text(labels), lives[name]))
            elif kind == "histogram":
                edges = [*map(number, family["edges"]), "+Inf"]
                lines.extend(f"{name}_bucket{label_text({**labels, 'le': edge})} 0.0" for edge in edges)
                lines.extend(f"{name}_{part}{label_text(labels)} 0.0" for part in ("count", "sum"))
            else:
                lines.append(f"{name}{label_text(labels)} {number(values.get(name, 0))}")
    return "\n".join(lines) + "\n"
