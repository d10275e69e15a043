"""The rows about our own requests, the hardware, and the agent itself."""

from agent.render.dashboard_rows import AGENT, EACH
from agent.render.panels import Panel, Query, Row

_CANARY_PERCENTILES = (
    f'slo_agent_latency_percentile_seconds{{{AGENT},target="*",signal=~"canary_ttft|canary_e2e",percentile=~"p50|p99",'
    'window="5m",bound="value"}'
)


def _largest(labels: str, series: str, legend: str) -> Query:
    return Query(f"max by ({labels}) ({series})", legend)


def _rate(labels: str, counter: str, legend: str) -> Query:
    return Query(f"sum by ({labels}) (rate({counter}[$__rate_interval]))", legend)


CANARIES = Row(
    "Canaries",
    (
        Panel(
            "Outcomes",
            "Our own requests: ok, a class of failure, or why none was sent.",
            "ops",
            (_rate("outcome", f"slo_agent_probes_total{{{EACH}}}", "{{outcome}}"),),
        ),
        Panel(
            "Latency of canaries",
            "Time to first token and whole request as a client outside the engine feels them. The difference to the "
            "engine's figures is network, HTTP and the way through a router.",
            "s",
            (_largest("signal, percentile", _CANARY_PERCENTILES, "{{signal}} {{percentile}}"),),
        ),
        Panel(
            "Share of canaries in all requests",
            "What the measuring costs: canaries are requests too, and engines count them with the users'.",
            "percentunit",
            (Query(f"max(slo_agent_probe_share_ratio{{{AGENT}}})", "canaries / requests"),),
        ),
    ),
)

HARDWARE = Row(
    "GPUs",
    (
        Panel(
            "Utilization",
            "Share of time in which some kernel ran, last 5 minutes. 1 does not mean that no more would fit.",
            "percentunit",
            (_largest("target", f"slo_agent_gpu_utilization_ratio{{{EACH}}}", "{{target}}"),),
            width=6,
            maximum=1,
        ),
        Panel(
            "Power",
            "Mean over the last 5 minutes.",
            "watt",
            (_largest("target", f"slo_agent_power_watts{{{EACH}}}", "{{target}}"),),
            width=6,
        ),
        Panel(
            "Tokens per joule",
            "Generated tokens per joule of GPU energy, last 5 minutes.",
            "none",
            (_largest("target", f"slo_agent_tokens_per_joule{{{EACH}}}", "{{target}}"),),
            width=6,
        ),
        Panel(
            "Tokens per dollar",
            "Generated tokens per dollar at the configured prices, last 5 minutes.",
            "none",
            (_largest("target", f"slo_agent_tokens_per_dollar{{{EACH}}}", "{{target}}"),),
            width=6,
        ),
    ),
)

AGENT_ITSELF = Row(
    "The agent itself",
    (
        Panel(
            "Targets that are up",
            "1 up, 0 down or stuck; absent while it cannot be told.",
            "none",
            (Query(f"min by (target) (slo_agent_target_up{{{EACH}}})", "{{target}}"),),
            maximum=1,
        ),
        Panel(
            "Age of the last reading",
            "Time since each target last answered. It grows while a target is silent.",
            "s",
            (_largest("target", f"slo_agent_last_reading_age_seconds{{{EACH}}}", "{{target}}"),),
        ),
        Panel(
            "Looks at metrics pages",
            "By outcome: ok, or the reason why there was nothing.",
            "ops",
            (_rate("outcome", f"slo_agent_scrapes_total{{{EACH}}}", "{{outcome}}"),),
        ),
        Panel(
            "Duration of a tick",
            "One evaluation of everything, step by step, and the time since the last one.",
            "s",
            (
                _largest("step", f"slo_agent_tick_duration_seconds{{{AGENT}}}", "{{step}}"),
                _largest("instance", f"slo_agent_last_tick_age_seconds{{{AGENT}}}", "since the last, {{instance}}"),
            ),
            width=6,
        ),
        Panel(
            "Deliveries",
            "Posts and exports to each output: ok, or why not.",
            "ops",
            (_rate("output, outcome", f"slo_agent_deliveries_total{{{AGENT}}}", "{{output}} {{outcome}}"),),
            width=6,
        ),
        Panel(
            "Lag of the event loop",
            "How late the agent last woke a timer. Above some milliseconds the machine is too busy to measure well.",
            "s",
            (_largest("instance", f"slo_agent_event_loop_lag_seconds{{{AGENT}}}", "{{instance}}"),),
            width=6,
        ),
        Panel(
            "What was left out",
            "Runs of periodic jobs that were skipped, and warnings about pages that were read.",
            "ops",
            (
                _rate("job", f"slo_agent_missed_jobs_total{{{AGENT}}}", "missed {{job}}"),
                _rate("target, code", f"slo_agent_page_warnings_total{{{EACH}}}", "{{target}} {{code}}"),
            ),
            width=6,
        ),
        Panel(
            "Running versions",
            "Every agent with its version and the hash of its config.",
            "none",
            (Query(f"slo_agent_config_info{{{AGENT}}}", instant=True),),
            kind="table",
            width=24,
        ),
    ),
)
