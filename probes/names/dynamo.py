"""NVIDIA Dynamo's front end and workers: our signals and their metric names.

Source: pages captured from Dynamo 1.6.1 (front end, mocker workers; aggregated and prefill/decode, one worker killed).
Series of requests, cancels and failures are there from their first event on.
"""

from probes.names.table import Name

MODEL_LABELS = ("model",)  # lower-cased

FRONTEND_NAMES = (
    Name(
        "router_requests_total",
        "counter",
        ("dynamo_frontend_requests_total",),
        "requests",
        "Ended requests by outcome: success, cancelled, validation, not_found, overload, unavailable, "
        "response_timeout, internal, not_implemented.",
        "A client that hangs up has status error too: told apart by its outcome. A stream cut short was HTTP 200 for "
        "the client and is unavailable here.",
        label="error_type",
        blank="success",
        over="sum",
    ),
    Name(
        "router_requests_started_total",
        "counter",
        ("dynamo_frontend_requests_started_total",),
        "requests",
        "Requests that came in, by endpoint.",
        label="endpoint",
        over="sum",
    ),
    Name(
        "router_failures_total",
        "counter",
        ("dynamo_frontend_failures_total",),
        "requests",
        "Failures by reason, such as transport.disconnected.",
        "Holds bad JSON too, which is in no other counter.",
        label="reason",
        over="sum",
    ),
    Name(
        "router_migrations_total",
        "counter",
        ("dynamo_frontend_model_migration_total",),
        "requests",
        "Requests that had to go to another worker: new_request or ongoing_request.",
        "Rises when a worker is gone, whether the move succeeds or not.",
        label="migration_type",
        over="sum",
    ),
    Name(
        "router_requests_inside",
        "gauge",
        ("dynamo_frontend_inflight_requests", "dynamo_frontend_active_requests"),
        "requests",
        "Requests inside.",
    ),
    Name(
        "router_requests_queued",
        "gauge",
        ("dynamo_frontend_queued_requests",),
        "requests",
        "Requests without a first token.",
        "Holds those in prefill: no queue in front of the engines.",
    ),
    Name("router_ttft_seconds", "histogram", ("dynamo_frontend_time_to_first_token_seconds",), "seconds", "TTFT."),
    Name(
        "router_itl_seconds",
        "histogram",
        ("dynamo_frontend_inter_token_latency_seconds",),
        "seconds",
        "Gap between two tokens.",
    ),
    Name(
        "router_e2e_seconds",
        "histogram",
        ("dynamo_frontend_request_duration_seconds",),
        "seconds",
        "A whole request, its stream included.",
        "Failed, cancelled and unknown models' requests too.",
    ),
    Name(
        "router_prompt_tokens",
        "histogram",
        ("dynamo_frontend_input_sequence_tokens",),
        "tokens",
        "Prompt tokens of a request.",
    ),
    Name(
        "router_output_tokens_total",
        "counter",
        ("dynamo_frontend_output_tokens_total",),
        "tokens",
        "Tokens sent, those of cancelled and failed requests included; by model.",
        label="model",
    ),
    Name(
        "router_cached_tokens",
        "histogram",
        ("dynamo_frontend_cached_tokens",),
        "tokens",
        "Prompt tokens of a request that were cached.",
        "Only answered requests have one.",
    ),
    Name(
        "router_model_ready_state",
        "gauge",
        ("dynamo_frontend_model_ready",),
        "state",
        "1 while the model can be asked for.",
        "Stayed 1 when a worker of two was killed.",
    ),
    Name(
        "router_workers",
        "gauge",
        ("dynamo_component_router_worker_registered",),
        "workers",
        "Workers the router knows, by part: decode (also aggregated ones) or prefill.",
        "A killed worker was still there 3 s later and gone after about 25 s.",
        label="worker_type",
        over="sum",
    ),
)

WORKER_NAMES = (
    Name(
        "worker_requests_total",
        "counter",
        ("dynamo_component_requests_total",),
        "requests",
        "Requests by component: prefill, or backend (decode or aggregated).",
        "Those of the endpoint generate alone; a prefill worker has no series of an engine besides.",
        label="dynamo_component",
        over="sum",
        where=("dynamo_endpoint", "generate"),
    ),
    Name(
        "worker_failed_responses_total",
        "counter",
        ("dynamo_component_errors_total",),
        "requests",
        "Responses that did not get through, by type; publish_response and publish_final are clients that hung up.",
        label="error_type",
        over="sum",
        where=("dynamo_endpoint", "generate"),
    ),
    Name(
        "worker_cancelled_requests_total",
        "counter",
        ("dynamo_component_cancellation_total",),
        "requests",
        "Cancelled requests, by component.",
        label="dynamo_component",
        over="sum",
        where=("dynamo_endpoint", "generate"),
    ),
    Name(
        "worker_requests_inside",
        "gauge",
        ("dynamo_component_inflight_requests",),
        "requests",
        "Requests inside.",
        over="sum",
        where=("dynamo_endpoint", "generate"),
    ),
    Name(
        "worker_request_seconds",
        "histogram",
        ("dynamo_component_request_duration_seconds",),
        "seconds",
        "One request in the worker; of a prefill worker: its prefill.",
        over="sum",
        where=("dynamo_endpoint", "generate"),
    ),
)
