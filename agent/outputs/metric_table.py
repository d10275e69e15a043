"""Every metric of the agent, once: the scrape page, the OTLP export and docs/metrics.md are all made from this table.

`series` tells how many time series a metric can have at most: T targets (the `*` of all together counts as one more),
S SLOs, M models served by a target, P recommendations that are open. Beyond MAX_SERIES_PER_METRIC a metric is cut and
`slo_agent_series_dropped` says by how much.
"""

from dataclasses import dataclass
from typing import Literal

MAX_SERIES_PER_METRIC = 10_000
"""A page of that many lines is about 1.5 MB, still read by a Prometheus within its default 10 s."""

ALL_TARGETS = "*"
"""The value of the label `target` for all of them together; no target can be called so."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One row. `unit` is a UCUM code, as OpenTelemetry wants it: s seconds, 1 ratio or count, By bytes, W watts."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    unit: str
    series: str
    help: str


# What users get, and what was promised.
EVENTS = Metric(
    "slo_agent_events_total", "counter", ("slo", "service", "model", "result"), "1", "3 S",
    "Events of an SLO since the agent started; result is good, bad or unknown (on which side of the threshold).",
)  # fmt: skip
BURN_RATE = Metric(
    "slo_agent_burn_rate", "gauge", ("slo", "window"), "1", "8 S",
    "How many times faster than allowed the error budget is spent over the window; absent without events.",
)  # fmt: skip
BURN_FACTOR = Metric(
    "slo_agent_burn_rate_threshold", "gauge", ("slo", "severity", "tier"), "1", "4 S",
    "Burn rate above which both windows of a pair must be for its alert.",
)  # fmt: skip
BURNING = Metric(
    "slo_agent_burning", "gauge", ("slo", "severity", "tier"), "1", "4 S",
    "1 while both windows of a pair burn faster than its threshold, else 0.",
)  # fmt: skip
OBJECTIVE = Metric(
    "slo_agent_objective_ratio", "gauge", ("slo",), "1", "S", "Share of good events that the SLO promises."
)
BUDGET = Metric(
    "slo_agent_error_budget_remaining_ratio", "gauge", ("slo",), "1", "S",
    "Error budget left: 1 untouched, 0 spent, below 0 overspent; absent without events.",
)  # fmt: skip
COVERAGE = Metric(
    "slo_agent_error_budget_coverage_ratio", "gauge", ("slo",), "1", "S",
    "Part of the SLO's period that the counts cover.",
)  # fmt: skip
SLO_STATE = Metric(
    "slo_agent_slo_state", "gauge", ("slo", "state"), "1", "6 S",
    "1 for the state the SLO is in, 0 for the others: ok, burning, exhausted, no_traffic, no_data, insufficient_data.",
)  # fmt: skip
SLO_SILENCE = Metric(
    "slo_agent_slo_silence", "gauge", ("slo", "reason"), "1", "5 S",
    "1 for why nothing can be said about the SLO (idle, rolling_out, down, blind, insufficient), 0 for the others.",
)  # fmt: skip
ALERT_FIRING = Metric(
    "slo_agent_alert_firing", "gauge",
    ("alertname", "severity", "tier", "slo", "service", "model", "role", "node", "target"), "1", "4 S + 4 T",
    "1 while the alert fires, then absent; labels as in Alertmanager, empty where the alert has none.",
)  # fmt: skip
ALERTS_FIRING = Metric("slo_agent_alerts_firing", "gauge", ("severity",), "1", "2", "How many alerts fire now.")

# Latencies.
TTFT = Metric(
    "slo_agent_ttft_seconds", "histogram", ("target", "model", "source"), "s", "5 T M (times buckets)",
    "Time to first token since the agent started; source is engine (every request), canary, span, or contribution: what"
    " our canaries put into engine, on its own bucket edges, each as low as it can lie (contribution_low) and as high"
    " (contribution_high). The users' count up to an edge lies between engine minus the one and minus the other.",
)  # fmt: skip
ITL = Metric(
    "slo_agent_itl_seconds", "histogram", ("target", "model", "source"), "s", "5 T M (times buckets)",
    "Gap between two output tokens since the agent started; from the engine: between two steps.",
)  # fmt: skip
TPOT = Metric(
    "slo_agent_tpot_seconds", "histogram", ("target", "model", "source"), "s", "5 T M (times buckets)",
    "A request's mean time per output token after the first, since the agent started.",
)  # fmt: skip
E2E = Metric(
    "slo_agent_e2e_seconds", "histogram", ("target", "model", "source"), "s", "5 T M (times buckets)",
    "Whole duration of a request since the agent started.",
)  # fmt: skip
PERCENTILE = Metric(
    "slo_agent_latency_percentile_seconds", "gauge", ("target", "signal", "percentile", "window", "bound"), "s",
    "108 T + 216",
    "Rolling percentile (p50, p90, p95, p99) with its proven bounds; bound is value, low or high. All targets together"
    " over 1m, 5m and 1h, each one over 5m. Signals: ttft, itl, tpot, e2e, queue, canary_ttft, canary_itl, canary_tpot,"
    " canary_e2e.",
)  # fmt: skip
MEAN = Metric(
    "slo_agent_latency_mean_seconds", "gauge", ("target", "signal", "window"), "s", "39 T",
    "Rolling mean of a latency; signals as in slo_agent_latency_percentile_seconds, and router_ttft, router_itl,"
    " router_tpot, router_e2e.",
)  # fmt: skip

# Work done, over rolling windows.
REQUEST_RATE = Metric(
    "slo_agent_request_rate_per_second", "gauge", ("target", "window"), "{request}/s", "3 T", "Requests finished."
)
PROMPT_RATE = Metric(
    "slo_agent_prompt_tokens_per_second", "gauge", ("target", "window"), "{token}/s", "3 T", "Prompt tokens read."
)
GENERATION_RATE = Metric(
    "slo_agent_generation_tokens_per_second", "gauge", ("target", "window"), "{token}/s", "3 T", "Tokens generated."
)
FAILED = Metric(
    "slo_agent_failed_ratio", "gauge", ("target", "window"), "1", "3 T", "Share of finished requests that failed."
)
PREEMPTIONS = Metric(
    "slo_agent_preemptions", "gauge", ("target", "window"), "1", "3 T", "Requests preempted within the window."
)
COVERED = Metric(
    "slo_agent_covered_seconds", "gauge", ("target", "window"), "s", "3 T",
    "Part of the window that readings cover.",
)  # fmt: skip
GOODPUT_RATIO = Metric(
    "slo_agent_goodput_ratio", "gauge", ("bound",), "1", "3",
    "Share of requests that kept every latency threshold, all targets, last 5 minutes; bound is value, low or high.",
)  # fmt: skip
GOODPUT = Metric(
    "slo_agent_goodput_per_second", "gauge", ("bound",), "{request}/s", "3",
    "Requests that kept every latency threshold, all targets, last 5 minutes; bound is value, low or high.",
)  # fmt: skip
CANARY_GOODPUT = Metric(
    "slo_agent_canary_goodput_ratio", "gauge", ("bound",), "1", "3",
    "Share of canaries that kept every latency threshold, all targets, last 5 minutes.",
)  # fmt: skip
SPAN_GOODPUT = Metric(
    "slo_agent_span_goodput_ratio", "gauge", ("bound",), "1", "3",
    "Share of users' requests that kept TTFT and TPOT, exactly from request spans, all targets, last 5 minutes.",
)  # fmt: skip
SPAN_COVERAGE = Metric(
    "slo_agent_span_coverage_ratio", "gauge", ("target",), "1", "T",
    "Request spans received over requests finished, last 5 minutes; `*` is all; below 1 spans are lost or under way.",
)  # fmt: skip
PROBE_SHARE = Metric(
    "slo_agent_probe_share_ratio", "gauge", (), "1", "1",
    "Share of our own canaries in all requests, all targets, last 5 minutes.",
)  # fmt: skip

CANARY_FIGURE = Metric(
    "slo_agent_canary_figure", "gauge", ("target", "kind", "figure"), "1", "25 T",
    "What only a canary of this kind measures, from its newest result; the figures and their units are in"
    " docs/canaries.md.",
)  # fmt: skip

# Caches, queues and hardware.
ROUTER_REQUESTS = Metric(
    "slo_agent_router_requests", "gauge", ("target", "window", "outcome"), "{request}", "12 T",
    "Requests that ended at routers within the window, by their own counters; outcome is answered, failed, cancelled"
    " (the client hung up) or refused (the client's mistake).",
)  # fmt: skip
KV_TRANSFER = Metric(
    "slo_agent_kv_transfer_mean_seconds", "gauge", ("target", "part"), "s", "2 T",
    "Mean KV transfer over NIXL, last 5 minutes; part is transfer, or post: what the decode loop stands still for.",
)  # fmt: skip
OBJECT_HITS = Metric(
    "slo_agent_object_store_hit_ratio", "gauge", ("target",), "1", "T",
    "Share of objects found in a KV object store, last 5 minutes. Objects are no tokens: no KV hit rate.",
)  # fmt: skip
STORE_CLIENTS = Metric(
    "slo_agent_object_store_clients", "gauge", ("target",), "1", "T", "Clients of a KV object store, newest reading."
)
KV_HIT = Metric(
    "slo_agent_kv_hit_ratio", "gauge", ("tier",), "1", "2 + cache tiers",
    "Share of prompt tokens found in a cache, all targets, last 5 minutes: prefix (in the GPU), external"
    " (a KV connector), or a tier of the cache server.",
)  # fmt: skip
ENGINE_ITL = Metric(
    "slo_agent_engine_itl_mean_seconds", "gauge", ("target", "engine"), "s", "engines of targets with several",
    "Mean gap between two tokens of each engine (data-parallel rank) behind one address, last 5 minutes.",
)  # fmt: skip
KV_USAGE = Metric("slo_agent_kv_usage_ratio", "gauge", ("target",), "1", "T", "KV cache in use, newest reading.")
RUNNING = Metric("slo_agent_requests_running", "gauge", ("target",), "1", "T", "Requests in the batch, newest reading.")
WAITING = Metric("slo_agent_requests_waiting", "gauge", ("target",), "1", "T", "Requests queued, newest reading.")
GPU = Metric(
    "slo_agent_gpu_utilization_ratio", "gauge", ("target",), "1", "T",
    "Share of time with a kernel on the GPU, last 5 minutes.",
)  # fmt: skip
GPU_POD = Metric(
    "slo_agent_gpu_pod_memory_bytes", "gauge", ("target", "namespace", "pod", "pod_uid"), "By", "pods on GPUs",
    "Memory that the processes of a pod hold on a GPU, newest reading; absent where NVML or the host's control groups"
    " do not say it. Namespace and pod are empty for a pod that discovery does not know.",
)  # fmt: skip
POWER = Metric("slo_agent_power_watts", "gauge", ("target",), "W", "T", "GPU power, last 5 minutes.")
PER_JOULE = Metric(
    "slo_agent_tokens_per_joule", "gauge", ("target",), "{token}/J", "T",
    "Generated tokens per joule, last 5 minutes.",
)  # fmt: skip
PER_DOLLAR = Metric(
    "slo_agent_tokens_per_dollar", "gauge", ("target",), "{token}", "T",
    "Generated tokens per dollar at the configured prices, last 5 minutes.",
)  # fmt: skip
DOLLARS = Metric("slo_agent_dollars_per_hour", "gauge", (), "1", "1", "What all targets cost at the configured prices.")
GOODPUT_PER_DOLLAR = Metric(
    "slo_agent_goodput_per_dollar", "gauge", ("bound",), "{request}", "3",
    "Requests per dollar that kept every latency threshold, all targets, last 5 minutes; bound is value, low or high.",
)  # fmt: skip
USER_SPEED = Metric(
    "slo_agent_tokens_per_second_per_user", "gauge", ("users", "bound"), "{token}/s", "6",
    "1 / TPOT of the median request and of the slowest 5 % (at most so much), all targets, last 5 minutes; users is"
    " median or slowest.",
)  # fmt: skip
VIOLATED = Metric(
    "slo_agent_violated_seconds", "gauge", ("slo",), "s", "S",
    "Bad share of the watched part of the period, as time: an hour with half of all events bad is 1800.",
)  # fmt: skip
VIOLATION_DOLLARS = Metric(
    "slo_agent_violation_dollars", "gauge", ("slo",), "1", "S",
    "Violated minutes at the SLO's violated_minute_dollars; absent where it has none.",
)  # fmt: skip

# What users ask for.
ARRIVALS = Metric(
    "slo_agent_arrivals_per_second", "gauge", ("window",), "{request}/s", "3",
    "Requests that came: what ended, and what is more inside than before; all targets.",
)  # fmt: skip
BURSTINESS = Metric(
    "slo_agent_arrival_burstiness", "gauge", ("window",), "1", "3",
    "Variance of arrivals over their mean: 1 is a Poisson process, more are bursts; all targets.",
)  # fmt: skip
TREND = Metric(
    "slo_agent_arrival_trend_ratio_per_hour", "gauge", (), "1", "1",
    "How the arrivals of the last hour grow: 0.1 is a tenth of their mean every hour.",
)  # fmt: skip
REQUEST_TOKENS = Metric(
    "slo_agent_request_tokens", "gauge", ("part", "percentile", "bound"), "{token}", "24",
    "Tokens of a request, all targets, last 5 minutes; part is prompt or output, percentile p50, p90, p95 or p99.",
)  # fmt: skip
CONCURRENCY = Metric(
    "slo_agent_concurrency", "gauge", (), "1", "1", "Requests inside, running and waiting, all targets, newest reading."
)

# Advice.
REPLICAS = Metric(
    "slo_agent_recommended_replicas", "gauge", ("model", "role", "bound"), "1", "3 P",
    "Replicas to have now: the present count where nothing is to change; bound is value, low or high; absent where no "
    "objective drives scaling and no advice is open.",
)  # fmt: skip
CONFIDENCE = Metric(
    "slo_agent_recommendation_confidence", "gauge", ("model", "role", "action"), "1", "P",
    "How sure the newest open advice of that kind is, 0 to 1; for scale that of the replicas to have now.",
)  # fmt: skip
VERDICTS = Metric(
    "slo_agent_recommendations", "gauge", ("model", "role", "action", "verdict"), "1", "8 P",
    "Recommendations that are remembered, by how they came out: open, kept, missed, not_applied, ...; the newest 200.",
)  # fmt: skip
WVA_DESIRED = Metric(
    "wva_desired_replicas", "gauge", ("variant_name", "namespace", "accelerator_type"), "1", "P",
    "The replicas to have now under the name that llm-d's autoscaler gives it; only with outputs.aliases.",
)  # fmt: skip
WVA_CURRENT = Metric(
    "wva_current_replicas", "gauge", ("variant_name", "namespace", "accelerator_type"), "1", "P",
    "The replicas there are, under llm-d's name; only with outputs.aliases.",
)  # fmt: skip
AIBRIX = Metric(
    "vllm:deployment_replicas", "gauge", ("model_name",), "1", "P",
    "The replicas to have now under the name that AIBrix' external autoscaler reads; only with outputs.aliases.",
)  # fmt: skip

# What is watched.
TARGET_UP = Metric(
    "slo_agent_target_up", "gauge", ("target",), "1", "T",
    "1 up, 0 down or stuck; absent while it cannot be told (never seen, or stale).",
)  # fmt: skip
TARGET_HEALTH = Metric(
    "slo_agent_target_health", "gauge", ("target", "health"), "1", "5 T",
    "1 for the target's health, 0 for the others: up, stale, down, stuck, unknown.",
)  # fmt: skip
READING_AGE = Metric(
    "slo_agent_last_reading_age_seconds", "gauge", ("target",), "s", "T", "Time since the target last answered."
)

# The agent itself.
TICK_AGE = Metric(
    "slo_agent_last_tick_age_seconds", "gauge", (), "s", "1", "Time since the last evaluation; grows when it is stuck."
)
CONFIG_INFO = Metric(
    "slo_agent_config_info", "gauge", ("version", "config_hash"), "1", "1", "1; the labels say what is running."
)
SCRAPES = Metric(
    "slo_agent_scrapes_total", "counter", ("target", "outcome"), "1", "20 T",
    "Looks at a target's metrics page; outcome is ok or the reason why there was nothing.",
)  # fmt: skip
SCRAPE_DURATION = Metric(
    "slo_agent_scrape_duration_seconds", "gauge", ("target",), "s", "T", "How long the last look took."
)
PAGE_BYTES = Metric("slo_agent_page_bytes", "gauge", ("target",), "By", "T", "Size of the last page that was read.")
PAGE_WARNINGS = Metric(
    "slo_agent_page_warnings_total", "counter", ("target", "code"), "1", "20 T",
    "Things on a page that a reader should know; `slo-agent inspect` shows them in words.",
)  # fmt: skip
PROBES = Metric(
    "slo_agent_probes_total", "counter", ("target", "kind", "outcome"), "1", "30 T",
    "Canaries; outcome is ok, a failure class, missed, or skipped with its reason.",
)  # fmt: skip
TICK_DURATION = Metric(
    "slo_agent_tick_duration_seconds", "gauge", ("step",), "s", "10", "How long each step of the last tick took."
)
DELIVERIES = Metric(
    "slo_agent_deliveries_total", "counter", ("output", "outcome"), "1", "10 per output",
    "Posts, exports and writes to an output; outcome is ok or the reason of the failure.",
)  # fmt: skip
MISSED_JOBS = Metric(
    "slo_agent_missed_jobs_total", "counter", ("job",), "1", "3 + T", "Runs of a periodic job that were skipped."
)
LOOP_LAG = Metric(
    "slo_agent_event_loop_lag_seconds", "gauge", (), "s", "1", "How late the event loop last woke a timer."
)
SPANS = Metric(
    "slo_agent_spans_total", "counter", ("result",), "1", "4",
    "Spans read: request (of a user), canary (ours), repeated (sent again by its exporter), other (no request).",
)  # fmt: skip
SPAN_EXPORTS = Metric(
    "slo_agent_span_exports_total", "counter", ("protocol",), "1", "2", "Exports of spans taken; grpc or http."
)
SPAN_REFUSALS = Metric(
    "slo_agent_span_exports_refused_total", "counter", ("reason",), "1", "8",
    "Exports of spans that the sender was told were not taken: busy, malformed, too_large, media_type, and so on.",
)  # fmt: skip
SPANS_LOST = Metric(
    "slo_agent_spans_lost_total", "counter", ("reason",), "1", "5",
    "Taken and not read: spans that are malformed or oversized, bodies with too_many, left unread, or with an error.",
)  # fmt: skip
SPAN_FORWARDS = Metric(
    "slo_agent_span_exports_forwarded_total", "counter", ("outcome",), "1", "3",
    "Exports for your own collector: ok, failed, or dropped because too much waited.",
)  # fmt: skip
SERIES_DROPPED = Metric(
    "slo_agent_series_dropped", "gauge", ("metric",), "1", "number of metrics",
    f"Series left out of this page because the metric has more than {MAX_SERIES_PER_METRIC}.",
)  # fmt: skip

VIEW_METRICS = (
    EVENTS, BURN_RATE, BURN_FACTOR, BURNING, OBJECTIVE, BUDGET, COVERAGE, SLO_STATE, SLO_SILENCE,
    ALERT_FIRING, ALERTS_FIRING,
    TTFT, ITL, TPOT, E2E, PERCENTILE, MEAN,
    REQUEST_RATE, PROMPT_RATE, GENERATION_RATE, FAILED, PREEMPTIONS, COVERED,
    GOODPUT_RATIO, GOODPUT, CANARY_GOODPUT, SPAN_GOODPUT, SPAN_COVERAGE, PROBE_SHARE, CANARY_FIGURE,
    ROUTER_REQUESTS, KV_TRANSFER, OBJECT_HITS, STORE_CLIENTS,
    KV_HIT, ENGINE_ITL, KV_USAGE, RUNNING, WAITING, GPU, GPU_POD, POWER, PER_JOULE, PER_DOLLAR,
    DOLLARS, GOODPUT_PER_DOLLAR, USER_SPEED, VIOLATED, VIOLATION_DOLLARS,
    ARRIVALS, BURSTINESS, TREND, REQUEST_TOKENS, CONCURRENCY,
    REPLICAS, CONFIDENCE, VERDICTS, WVA_DESIRED, WVA_CURRENT, AIBRIX,
    TARGET_UP, TARGET_HEALTH, READING_AGE, TICK_AGE, SERIES_DROPPED,
)  # fmt: skip
"""Metrics read from the `View` at every scrape."""

SELF_METRICS = (
    CONFIG_INFO, SCRAPES, SCRAPE_DURATION, PAGE_BYTES, PAGE_WARNINGS, PROBES, TICK_DURATION, DELIVERIES, MISSED_JOBS,
    LOOP_LAG, SPANS, SPAN_EXPORTS, SPAN_REFUSALS, SPANS_LOST, SPAN_FORWARDS,
)  # fmt: skip
"""Metrics that the runtime keeps while it works."""
