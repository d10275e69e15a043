"""LMCache's multiprocess server: our signals and its metric names.

Source: pages captured from LMCache 0.5.6 (`lmcache server`), alone and beside vLLM 0.32.
"""

from probes.names.table import Name

PREFIXES = ("lmcache_mp_",)
MODEL_LABELS = ("model_name",)  # LMCache writes the model's path here, vLLM its served name

NAMES = (
    Name(
        "cache_lookup_tokens_total",
        "counter",
        ("lookup_requested_tokens_total",),
        "tokens",
        "Tokens looked up (whole chunks).",
        "Denominator differs from vLLM's external queries, which count single tokens. Tenants (cache_salt) add up.",
        over="sum",
    ),
    Name(
        "cache_hit_tokens_total",
        "counter",
        ("lookup_hit_tokens_total", "lookup_hit_total"),
        "tokens",
        "Tokens found, all tiers.",
        over="sum",
    ),
    Name(
        "cache_hit_l1_tokens_total",
        "counter",
        ("lookup_hit_l1_tokens_total",),
        "tokens",
        "Tokens found in memory.",
        over="sum",
    ),
    Name(
        "cache_hit_l2_tokens_total",
        "counter",
        ("lookup_hit_l2_tokens_total",),
        "tokens",
        "Tokens found behind it (disk, remote).",
        over="sum",
    ),
    Name("cache_usage_ratio", "gauge", ("l1_usage_ratio",), "ratio", "Part of the memory tier in use."),
    Name("cache_used_bytes", "gauge", ("l1_memory_usage_bytes",), "bytes", "Bytes in the memory tier.", over="sum"),
    Name("cache_l2_used_bytes", "gauge", ("l2_usage_bytes",), "bytes", "Bytes behind it, all adapters.", over="sum"),
    Name(
        "cache_evicted_chunks_total",
        "counter",
        ("l1_evicted_chunks_total",),
        "chunks",
        "Chunks evicted from the memory tier.",
        over="sum",
    ),
    Name(
        "cache_idle_before_evict_seconds",
        "histogram",
        ("l1_chunk_idle_before_evict_seconds",),
        "seconds",
        "From a chunk's last use to its eviction: how long the memory tier remembers.",
        "One chunk in a hundred, unless --metrics-sample-rate says otherwise.",
        over="sum",
    ),
    Name(
        "cache_reuse_gap_seconds",
        "histogram",
        ("l1_chunk_reuse_gap_seconds",),
        "seconds",
        "Between two uses of a chunk in the memory tier.",
        over="sum",
    ),
    Name(
        "cache_evict_reuse_gap_seconds",
        "histogram",
        ("l1_chunk_evict_reuse_gap_seconds",),
        "seconds",
        "From a chunk's eviction until it is asked for again: what a larger tier would have had.",
        "After 300 s without a question it counts as 300 s: that bucket holds those that never came again.",
        over="sum",
    ),
    Name(
        "cache_failed_allocation_chunks_total",
        "counter",
        ("l1_allocation_failure_chunks_total",),
        "chunks",
        "Chunks that found no room in the memory tier, by what they came for: l1_store or l2_prefetch.",
        "Rises when the memory tier is too small for the load.",
        label="during",
        over="sum",
    ),
    Name(
        "cache_failed_prefetch_chunks_total",
        "counter",
        ("l2_prefetch_failure_chunks_total",),
        "chunks",
        "Chunks that the tier behind it had and could not give, by reason.",
        label="reason",
        over="sum",
    ),
    Name(
        "cache_events_dropped_total",
        "counter",
        ("event_bus_dropped_events_total",),
        "events",
        "Events the server's own bus lost.",
        "When it rises, every counter here is too low.",
    ),
)
