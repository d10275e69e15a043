"""llm-d's endpoint picker (EPP): our signals and their metric names, of all the prefixes it has had.

Every number stands on its page under several names; of a row the first that is there counts, the others are not added.
Source: the picker's own test pages (llm-d-router, August 2026) and its code; no live picker was read.
"""

from probes.names.table import Name

MODEL_LABELS = ("model_name",)


def _all(now: str, *before: str) -> tuple[str, ...]:
    """The current name under its two prefixes, then the older names."""
    return (f"llm_d_epp_{now}", f"llm_d_router_epp_{now}", *before)


def _objective(name: str) -> tuple[str, ...]:
    return (f"inference_objective_{name}", f"inference_model_{name}")


NAMES = (
    Name(
        "router_scheduled_requests_total",
        "counter",
        _all("request_total", *_objective("request_total")),
        "requests",
        "Requests that were given to an endpoint.",
        "Those that found none are in the failed ones alone.",
        label="target_model_name",
        over="sum",
    ),
    Name(
        "router_failed_requests_total",
        "counter",
        _all("request_error_total", *_objective("request_error_total")),
        "requests",
        "Failed requests by code, such as ModelServerError.",
        "Clients' own mistakes (BadRequest) are in it.",
        label="error_code",
        over="sum",
    ),
    Name(
        "router_requests_inside",
        "gauge",
        _all("request_running", *_objective("running_requests")),
        "requests",
        "Requests inside.",
        over="sum",
    ),
    Name(
        "router_ttft_seconds",
        "histogram",
        _all("request_ttft_seconds"),
        "seconds",
        "Request received to first byte of the answer, streams alone.",
        'Without streaming it is the whole duration: only streaming="true" counts. Older names lack that label and '
        "are not read.",
        over="sum",
        where=("streaming", "true"),
    ),
    Name(
        "router_itl_seconds",
        "histogram",
        _all("request_streaming_itl_seconds"),
        "seconds",
        "Gap between two parts of a streamed answer.",
        "Parts of the body, not tokens.",
        over="sum",
    ),
    Name(
        "router_tpot_seconds",
        "histogram",
        _all("request_streaming_tpot_seconds", *_objective("request_tpot_seconds")),
        "seconds",
        "(End - first byte) / (tokens - 1) of a streamed request.",
        "The name with ntpot or normalized has prefill and queue in it and is not read.",
        over="sum",
    ),
    Name(
        "router_e2e_seconds",
        "histogram",
        _all("request_duration_seconds", *_objective("request_duration_seconds")),
        "seconds",
        "A whole request.",
        over="sum",
    ),
    Name(
        "router_prompt_tokens",
        "histogram",
        _all("request_input_tokens", *_objective("input_tokens")),
        "tokens",
        "Prompt tokens of a request.",
        over="sum",
    ),
    Name(
        "router_output_tokens",
        "histogram",
        _all("request_output_tokens", *_objective("output_tokens")),
        "tokens",
        "Output tokens of a request.",
        over="sum",
    ),
    Name(
        "router_cached_tokens",
        "histogram",
        _all("request_cached_tokens", *_objective("prompt_cached_tokens")),
        "tokens",
        "Prompt tokens of a request that were cached.",
        over="sum",
    ),
    Name(
        "pool_kv_usage_ratio",
        "gauge",
        _all("average_kv_cache_utilization", "inference_pool_average_kv_cache_utilization"),
        "ratio",
        "KV usage, mean over the pool's endpoints.",
        "Of a pod with several data-parallel engines one alone is looked at.",
        label="name",
    ),
    Name(
        "pool_requests_waiting",
        "gauge",
        _all("average_queue_size", "inference_pool_average_queue_size"),
        "requests",
        "Waiting requests, mean over the pool's endpoints.",
        "A mean: never added to what the engines say.",
        label="name",
    ),
    Name(
        "pool_ready_endpoints",
        "gauge",
        _all("ready_endpoints", "inference_pool_ready_pods"),
        "endpoints",
        "Endpoints that can be given requests.",
        label="name",
    ),
    Name(
        "router_scheduling_attempts_total",
        "counter",
        _all("scheduler_attempts_total", "inference_extension_scheduler_attempts_total"),
        "attempts",
        "Looks for an endpoint by status: success or failure.",
        label="status",
        over="sum",
    ),
    Name(
        "router_scheduling_seconds",
        "histogram",
        _all("scheduler_e2e_duration_seconds", "inference_extension_scheduler_e2e_duration_seconds"),
        "seconds",
        "One such look.",
        over="sum",
    ),
    Name(
        "router_queue_seconds",
        "histogram",
        _all(
            "flow_control_request_queue_duration_seconds",
            "inference_extension_flow_control_request_queue_duration_seconds",
        ),
        "seconds",
        "Time a request was held back by flow control.",
        over="sum",
    ),
    Name(
        "pd_decisions_total",
        "counter",
        _all(
            "disagg_decision_total",
            "llm_d_inference_scheduler_disagg_decision_total",
            "llm_d_inference_scheduler_pd_decision_total",
        ),
        "requests",
        "Requests by where they went: decode-only, prefill-decode, ...",
        label="decision_type",
        over="sum",
    ),
)
