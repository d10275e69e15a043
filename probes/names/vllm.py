"""vLLM: our signals and its metric names (V0 0.6 to V1 0.32; older names where they mean the same).

Source: pages captured from vLLM 0.24 and 0.32 and the code of 0.32 (v1/metrics/loggers.py); renames from its change
requests #18354, #24110 and #29330.
"""

from probes.names.table import Name
from probes.names.vllm_kv import KV_TRANSFER

PREFIXES = ("vllm:", "ray_vllm:", "ray_vllm_", "kserve_vllm:", "vllm_")
RAY_PREFIX = "ray_"  # Ray writes counters under two names, with and without _total
ENGINE_LABEL = "engine"  # the data-parallel rank
REPLICA_LABELS = ("ReplicaId", "WorkerId")  # Ray: one page for all replicas of a node; the first that is there
MODEL_LABEL = "model_name"  # the first served name; aliases and LoRA adapters are not told apart

NAMES = (
    Name("requests_running", "gauge", ("num_requests_running",), "requests", "Requests in the running batch."),
    Name(
        "requests_waiting",
        "gauge",
        ("num_requests_waiting",),
        "requests",
        "Requests not yet scheduled.",
        "Includes deferred ones (remote KV, LoRA budget).",
    ),
    Name(
        "requests_waiting_by_reason",
        "gauge",
        ("num_requests_waiting_by_reason",),
        "requests",
        "Waiting requests by reason: capacity or deferred.",
        label="reason",
    ),
    Name(
        "kv_usage_ratio",
        "gauge",
        ("kv_cache_usage_perc", "gpu_cache_usage_perc"),
        "ratio",
        "Part of the KV blocks in use by running requests.",
        "The name says perc, the value is 0..1; evictable cached blocks count as free.",
    ),
    Name("prompt_tokens_total", "counter", ("prompt_tokens_total",), "tokens", "Prompt tokens, cached ones included."),
    Name(
        "prompt_tokens_by_source_total",
        "counter",
        ("prompt_tokens_by_source_total",),
        "tokens",
        "Prompt tokens by source: local_compute, local_cache_hit, external_kv_transfer.",
        label="source",
    ),
    Name(
        "prompt_tokens_cached_by_source_total",
        "counter",
        ("prompt_tokens_cached_by_source_total",),
        "tokens",
        "Cached prompt tokens by tier: device, host, disk, p2p, external_unspecified.",
        "LMCache and Mooncake count as external_unspecified.",
        label="source",
    ),
    Name(
        "generation_tokens_total",
        "counter",
        ("generation_tokens_total",),
        "tokens",
        "Tokens generated, those of later aborted requests included.",
    ),
    Name(
        "prefix_cache_queried_tokens_total",
        "counter",
        ("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
        "tokens",
        "Prompt tokens looked up in the prefix cache.",
        "Under its old name (0.8 to 0.10) some versions count blocks: only the ratio of hits to queries holds.",
    ),
    Name(
        "prefix_cache_hit_tokens_total",
        "counter",
        ("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
        "tokens",
        "Prompt tokens found in the prefix cache.",
    ),
    Name(
        "external_cache_queried_tokens_total",
        "counter",
        ("external_prefix_cache_queries_total",),
        "tokens",
        "Prompt tokens asked of the KV connector beyond the local hit.",
    ),
    Name(
        "external_cache_hit_tokens_total",
        "counter",
        ("external_prefix_cache_hits_total",),
        "tokens",
        "Prompt tokens the KV connector had.",
        "On a P/D decode instance near 100 % by construction: no hit rate.",
    ),
    Name(
        "requests_finished_total",
        "counter",
        ("request_success_total",),
        "requests",
        "Finished requests by reason: stop, length, abort, error, repetition.",
        "Misnamed on the page; clients that hang up are in none of them.",
        label="finished_reason",
    ),
    Name(
        "requests_rejected_total",
        "counter",
        ("admission_rejections_total",),
        "requests",
        "Requests the front end refused, by reason.",
        "Has no engine label.",
        label="reason",
    ),
    Name("preemptions_total", "counter", ("num_preemptions_total",), "events", "Preemptions (events, not requests)."),
    Name(
        "ttft_seconds",
        "histogram",
        ("time_to_first_token_seconds",),
        "seconds",
        "Arrival at the front end to first token, queue included.",
        "Also observed for requests that failed before a token.",
    ),
    Name(
        "itl_seconds",
        "histogram",
        ("inter_token_latency_seconds", "time_per_output_token_seconds"),
        "seconds",
        "Gap between two outputs of one request.",
        "One a step, not a token: with speculative decoding larger than TPOT.",
    ),
    Name(
        "tpot_seconds",
        "histogram",
        ("request_time_per_output_token_seconds",),
        "seconds",
        "Per finished request: (last - first token) / (tokens - 1).",
        "0 is observed for requests of one token.",
    ),
    Name("e2e_seconds", "histogram", ("e2e_request_latency_seconds",), "seconds", "Arrival to the last token."),
    Name(
        "queue_seconds",
        "histogram",
        ("request_queue_time_seconds",),
        "seconds",
        "Queued to first scheduled.",
        "Poisoned by requests that fail while waiting: no mean beside such requests.",
        is_phase=True,
    ),
    Name(
        "prefill_seconds",
        "histogram",
        ("request_prefill_time_seconds",),
        "seconds",
        "First scheduled to first token.",
        "Poisoned by failed requests: no mean beside such requests.",
        is_phase=True,
    ),
    Name(
        "request_prompt_tokens",
        "histogram",
        ("request_prompt_tokens",),
        "tokens",
        "Prompt tokens of each finished request.",
    ),
    Name(
        "request_generation_tokens",
        "histogram",
        ("request_generation_tokens",),
        "tokens",
        "Output tokens of each finished request.",
    ),
    Name(
        "step_tokens",
        "histogram",
        ("iteration_tokens_total",),
        "tokens",
        "Tokens per engine step; its count is the number of steps.",
        "A histogram despite its name.",
    ),
    Name(
        "engine_sleep_state",
        "gauge",
        ("engine_sleep_state",),
        "state",
        "1 for the state the engine is in: awake, weights_offloaded or discard_all.",
        "An engine that sleeps answers /health and serves nobody.",
        label="sleep_state",
    ),
    Name(
        "requests_kv_fetch_by_stage",
        "gauge",
        ("num_requests_kv_fetch_by_stage",),
        "requests",
        "Requests that wait for KV from elsewhere, by stage.",
        "There on instances that can take KV (kv_consumer, kv_both): a hint of the role, no proof.",
        label="stage",
    ),
    Name(
        "requests_corrupted_total",
        "counter",
        ("corrupted_requests_total",),
        "requests",
        "Requests with NaN in their logits.",
        "Only with VLLM_COMPUTE_NANS_IN_LOGITS=1.",
    ),
    Name(
        "spec_decode_drafts_total",
        "counter",
        ("spec_decode_num_drafts_total",),
        "drafts",
        "Drafts of speculative decoding.",
        "With drafts one ITL observation covers several tokens: use TPOT.",
    ),
    Name(
        "spec_decode_draft_tokens_total",
        "counter",
        ("spec_decode_num_draft_tokens_total",),
        "tokens",
        "Tokens drafted.",
    ),
    Name(
        "spec_decode_accepted_tokens_total",
        "counter",
        ("spec_decode_num_accepted_tokens_total",),
        "tokens",
        "Drafted tokens that were accepted; a step gives 1 + accepted / drafts tokens.",
    ),
    *KV_TRANSFER,
)

CONFIG_INFO = "cache_config_info"  # labels num_gpu_blocks x block_size, or kv_cache_size_tokens: the KV capacity
SETTINGS = ("block_size", "cache_dtype", "gpu_memory_utilization", "sliding_window", "mamba_block_size")
"""Its labels that become samples `engine_setting`, where they say something."""

# Upper edges of vLLM 0.32's default buckets (v1/metrics/loggers.py); a page's own edges always come before these.
_LATENCY = (
    0.3,
    0.5,
    0.8,
    1.0,
    1.5,
    2.0,
    2.5,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
    40.0,
    50.0,
    60.0,
    120.0,
    240.0,
    480.0,
    960.0,
)
_ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
DEFAULT_EDGES = {
    "ttft_seconds": (
        *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
        *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
    ),
    "itl_seconds": _ITL,
    "tpot_seconds": _ITL,
    "e2e_seconds": (*_LATENCY, 1920.0, 7680.0),
    "queue_seconds": (*_LATENCY, 1920.0, 7680.0),
}
