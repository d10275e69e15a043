"""vLLM's KV connectors: what moves between instances (NIXL) and between tiers (its own offloading, LMCache).

Source: pages captured from vLLM 0.24 (P/D over NIXL) and 0.32 (with LMCache), and the code of 0.32
(distributed/kv_transfer/kv_connector/v1/*/metrics.py, v1/kv_offload).
"""

from probes.names.table import Name

KV_TRANSFER = (
    Name(
        "nixl_transfer_seconds",
        "histogram",
        ("nixl_xfer_time_seconds",),
        "seconds",
        "One NIXL transfer, on the side that starts it.",
    ),
    Name(
        "nixl_post_seconds",
        "histogram",
        ("nixl_post_time_seconds",),
        "seconds",
        "The part of a transfer in which the engine's loop stands still.",
        "Grows with the number of descriptors: larger KV blocks are the cure.",
    ),
    Name(
        "nixl_transfer_bytes",
        "histogram",
        ("nixl_bytes_transferred",),
        "bytes",
        "Bytes of one NIXL transfer.",
    ),
    Name(
        "nixl_failed_transfers_total",
        "counter",
        ("nixl_num_failed_transfers_total",),
        "transfers",
        "NIXL transfers that failed.",
        "Holds failed notifications already (0.32).",
    ),
    Name(
        "nixl_failed_notifications_total",
        "counter",
        ("nixl_num_failed_notifications_total",),
        "notifications",
        "Failed notifications.",
        "Part of the failed transfers: never add the two.",
    ),
    Name(
        "nixl_kv_expired_requests_total",
        "counter",
        ("nixl_num_kv_expired_reqs_total",),
        "requests",
        "Requests whose KV no decode instance came for in time; on the prefill side.",
    ),
    Name(
        "kv_offload_load_bytes_total",
        "counter",
        ("kv_offload_load_bytes_total",),
        "bytes",
        "KV bytes brought back from vLLM's own offloading.",
    ),
    Name(
        "kv_offload_load_seconds_total",
        "counter",
        ("kv_offload_load_time_total",),
        "seconds",
        "Time spent on that.",
    ),
    Name(
        "kv_offload_store_bytes_total",
        "counter",
        ("kv_offload_store_bytes_total",),
        "bytes",
        "KV bytes offloaded.",
    ),
    Name(
        "kv_offload_store_seconds_total",
        "counter",
        ("kv_offload_store_time_total",),
        "seconds",
        "Time spent on that.",
    ),
    Name(
        "kv_offload_moved_bytes_total",
        "counter",
        ("kv_offload_total_bytes_total",),
        "bytes",
        "KV bytes moved by direction: CPU_to_GPU or GPU_to_CPU.",
        "The older name, written beside the newer ones: never add them.",
        label="transfer_type",
    ),
    Name(
        "kv_offload_failed_allocations_total",
        "counter",
        ("kv_offload_allocation_failure_total",),
        "allocations",
        "Blocks that found no room in the offloading tier.",
    ),
    Name(
        "kv_offload_queried_chunks_total",
        "counter",
        ("kv_offload_tiering_chunk_queries_total",),
        "chunks",
        "Chunks looked up in tiered offloading, by tier.",
        label="tier",
    ),
    Name(
        "kv_offload_hit_chunks_total",
        "counter",
        ("kv_offload_tiering_chunk_hits_total",),
        "chunks",
        "Chunks found there, by tier.",
        label="tier",
    ),
    Name(
        "external_cache_lookup_seconds",
        "histogram",
        ("lmcache_mp_lookup_duration_seconds",),
        "seconds",
        "Lookups in LMCache's server, as the engine waits for them.",
        "The sign of a cache server that is gone: seconds per lookup, while vLLM's /health stays 200.",
    ),
)
