"""The router of vLLM's production-stack: our signals and their metric names.

It writes names of vLLM's with a label `server`, of which some are never set and some stay 0: only those that hold
something of its own are read. Source: its code of August 2026 (src/vllm_router); no live one was read.
"""

from probes.names.table import Name

MODEL_LABELS = ("model",)

NAMES = (
    Name(
        "router_received_requests_total",
        "counter",
        ("vllm:num_incoming_requests_total",),
        "requests",
        "Requests that came in, by model.",
        label="model",
        over="sum",
    ),
    Name(
        "router_failed_requests_total",
        "counter",
        ("vllm:request_errors_total",),
        "requests",
        "Failed requests by type.",
        label="error_type",
        over="sum",
    ),
    Name(
        "router_ended_seconds",
        "histogram",
        ("vllm:request_latency_seconds",),
        "seconds",
        "A whole request, by status.",
        label="status",
        over="sum",
    ),
    Name(
        "router_prompt_tokens_total",
        "counter",
        ("vllm:input_tokens_total",),
        "tokens",
        "Prompt tokens, by server.",
        label="server",
        over="sum",
    ),
    Name(
        "router_output_tokens_total",
        "counter",
        ("vllm:output_tokens_total",),
        "tokens",
        "Output tokens, by server.",
        label="server",
        over="sum",
    ),
    Name(
        "router_requests_inside",
        "gauge",
        ("vllm:num_requests_running",),
        "requests",
        "Requests inside, by the router's own count.",
        "Named as an engine's, with a label server: never added to the engines'.",
        over="sum",
    ),
    Name(
        "router_worker_health_state",
        "gauge",
        ("vllm:healthy_pods_total",),
        "state",
        "1 for a server (its address) that the router takes to be healthy.",
        label="server",
    ),
)
