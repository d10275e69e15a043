"""Mooncake Store's master, and what its client tells: our signals and their metric names.

Source: pages captured from Mooncake 0.3.13 (`mooncake_master`, `mooncake_client`), before and after 60 puts and 101
gets whose outcome was known, and under memory pressure.
"""

from probes.names.table import Name

OBJECTS = "Objects, not tokens: no rate of them is a KV hit rate of requests."

NAMES = (
    Name("store_lookups_total", "counter", ("total_get_nums_",), "objects", "Objects that clients asked for.", OBJECTS),
    Name("store_hits_total", "counter", ("valid_get_nums_",), "objects", "Objects that were there.", OBJECTS),
    Name("store_memory_hits_total", "counter", ("mem_cache_hit_nums_",), "objects", "Found in memory.", OBJECTS),
    Name("store_disk_hits_total", "counter", ("file_cache_hit_nums_",), "objects", "Found on disk.", OBJECTS),
    Name("store_memory_hit_bytes_total", "counter", ("mem_cache_hit_bytes_total",), "bytes", "Bytes found in memory."),
    Name("store_disk_hit_bytes_total", "counter", ("file_cache_hit_bytes_total",), "bytes", "Bytes found on disk."),
    Name(
        "store_missed_lookups_total",
        "counter",
        ("master_get_replica_list_failures_total",),
        "objects",
        "Single lookups without an answer.",
        "Called failures on the page: every miss is one. Never an error rate.",
    ),
    Name("store_puts_total", "counter", ("master_put_start_requests_total",), "objects", "Single puts begun."),
    Name(
        "store_batch_puts_total",
        "counter",
        ("master_batch_put_start_items_total",),
        "objects",
        "Puts begun in batches.",
    ),
    Name(
        "store_failed_allocations_total",
        "counter",
        ("master_put_start_alloc_failures_total",),
        "objects",
        "Puts that found no room.",
        "The sign of a store that is too small.",
    ),
    Name("store_objects", "gauge", ("master_key_count",), "objects", "Objects held."),
    Name("store_used_bytes", "gauge", ("master_allocated_bytes",), "bytes", "Memory in use, all segments."),
    Name(
        "store_capacity_bytes",
        "gauge",
        ("master_total_capacity_bytes",),
        "bytes",
        "Memory that clients lend, all segments.",
        "Falls when a client dies: with store_clients the only sign of it, no counter of failures moves.",
    ),
    Name("store_disk_used_bytes", "gauge", ("master_allocated_file_size_bytes",), "bytes", "Disk in use."),
    Name("store_disk_capacity_bytes", "gauge", ("master_total_file_capacity_bytes",), "bytes", "Disk that is lent."),
    Name(
        "store_clients",
        "gauge",
        ("master_active_clients",),
        "clients",
        "Clients that the master hears from.",
        "One that dies is missed after --client_ttl.",
    ),
    Name(
        "store_segment_used_bytes",
        "gauge",
        ("segment_allocated_bytes",),
        "bytes",
        "Memory in use, by segment (host:port of the client that lends it).",
        label="segment",
    ),
    Name("store_evicted_objects_total", "counter", ("master_evicted_key_count",), "objects", "Objects evicted."),
    Name("store_evicted_bytes_total", "counter", ("master_evicted_size_bytes",), "bytes", "Bytes evicted."),
    Name("store_evictions_total", "counter", ("master_successful_evictions_total",), "events", "Rounds of eviction."),
    Name(
        "store_value_bytes",
        "histogram",
        ("master_value_size_bytes",),
        "bytes",
        "Size of one object.",
        "Holds one observation of 0 bytes more than there were puts.",
    ),
    Name(
        "store_failed_pings_total",
        "counter",
        ("master_ping_failures_total",),
        "events",
        "Pings of clients that the master did not accept.",
    ),
)
CLIENT_NAMES = (
    Name(
        "store_client_calls_total",
        "counter",
        ("mooncake_client_rpc_count",),
        "calls",
        "Calls of one client to the master, by name.",
        label="rpc_name",
        over="sum",
    ),
    Name(
        "store_client_call_seconds",
        "histogram",
        ("mooncake_client_rpc_latency",),
        "seconds",
        "One such call.",
        "Microseconds on the page, seconds here.",
        label="rpc_name",
        over="sum",
        scale=1e-6,
    ),
)
