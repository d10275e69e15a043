"""LMCache inside vLLM's process (LMCacheConnectorV1): our signals and its metric names.

On vLLM's own page where PROMETHEUS_MULTIPROC_DIR is set for both, or on LMCache's internal API server (port 6999 and
up). Watch one of the two, not both. Its numbers are renewed every 10 s.

The gauges `retrieve_hit_rate` (1 when idle) and `lookup_hit_rate` (0 when idle) are not read: only counters can be
added up over time and engines. Source: the code of LMCache 0.3.7 to 0.5.6 (observability.py), LMCache#1260.
"""

from probes.names.table import Name

PREFIXES = ("lmcache:",)
MODEL_LABELS = ("served_model_name", "model_name")  # the first as vLLM says it, the second is the model's path

NAMES = (
    Name(
        "cache_lookup_tokens_total",
        "counter",
        ("num_lookup_tokens_total",),
        "tokens",
        "Tokens looked up.",
        "The whole prompt, what vLLM itself has cached too. Tensor-parallel workers repeat each other: the largest.",
        over="max",
    ),
    Name(
        "cache_hit_tokens_total",
        "counter",
        ("num_lookup_hits_total",),
        "tokens",
        "Tokens found, all tiers.",
        over="max",
    ),
    Name(
        "cache_retrieve_requested_tokens_total",
        "counter",
        ("num_requested_tokens_total",),
        "tokens",
        "Tokens asked to be brought into the GPU.",
        "Only what a lookup had found is asked for.",
        over="max",
    ),
    Name(
        "cache_retrieved_tokens_total",
        "counter",
        ("num_hit_tokens_total",),
        "tokens",
        "Tokens brought into the GPU.",
        "Over the requested ones it is completeness (1 unless tokens were lost), never a hit rate.",
        over="max",
    ),
    Name(
        "cache_stored_tokens_total",
        "counter",
        ("num_stored_tokens_total",),
        "tokens",
        "Tokens stored, later evicted ones included.",
        over="max",
    ),
    Name(
        "cache_used_bytes",
        "gauge",
        ("local_cache_usage",),
        "bytes",
        "Bytes in the memory tier, all workers.",
        over="sum",
    ),
    Name(
        "cache_l2_used_bytes",
        "gauge",
        ("local_storage_usage",),
        "bytes",
        "Bytes on disk, all workers.",
        over="sum",
    ),
    Name(
        "cache_remote_read_bytes_total",
        "counter",
        ("num_remote_read_bytes_total",),
        "bytes",
        "Bytes read from the remote tier, all workers.",
        over="sum",
    ),
    Name(
        "cache_remote_written_bytes_total",
        "counter",
        ("num_remote_write_bytes_total",),
        "bytes",
        "Bytes written to the remote tier, all workers.",
        over="sum",
    ),
    Name(
        "cache_evicted_keys_total",
        "counter",
        ("local_cpu_evict_keys_count_total",),
        "keys",
        "Keys evicted from the memory tier, all workers.",
        over="sum",
    ),
    Name(
        "cache_remote_ping_failed_events_total",
        "counter",
        ("remote_ping_errors_total",),
        "events",
        "Failed pings of the remote tier, all workers.",
        "The sign that it is down.",
        over="sum",
    ),
    Name(
        "cache_lookup_seconds",
        "histogram",
        ("time_to_lookup",),
        "seconds",
        "One lookup.",
        over="sum",
    ),
    Name(
        "cache_retrieve_seconds",
        "histogram",
        ("time_to_retrieve",),
        "seconds",
        "One retrieval, all workers.",
        over="sum",
    ),
    Name(
        "cache_remote_get_seconds",
        "histogram",
        ("remote_time_to_get",),
        "seconds",
        "One read from the remote tier, all workers.",
        "Milliseconds on the page, seconds here.",
        over="sum",
        scale=0.001,
    ),
    Name(
        "cache_remote_put_seconds",
        "histogram",
        ("remote_time_to_put",),
        "seconds",
        "One write to the remote tier, all workers.",
        "Milliseconds on the page, seconds here.",
        over="sum",
        scale=0.001,
    ),
)
