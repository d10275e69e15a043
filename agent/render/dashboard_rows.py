"""What the dashboard shows, row by row: promises first, then what users feel, then why.

All of it comes from the agent's own metrics (docs/metrics.md). With several agents a latency or an age shows the
largest of them, and a rate or a count their sum.
"""

from agent.render.panels import Panel, Query, Row

AGENT = 'instance=~"$agent"'
ALL_TOGETHER = f'{AGENT},target="*"'
EACH = f'{AGENT},target=~"$target"'
SLO = f'{AGENT},slo=~"$slo"'
BUDGET_STEPS = ((None, "red"), (0.0, "orange"), (0.25, "green"))


def _sum(labels: str, series: str) -> str:
    return f"sum by ({labels}) ({series})"


def _max(labels: str, series: str) -> str:
    return f"max by ({labels}) ({series})"


def _rate(labels: str, counter: str) -> str:
    return _sum(labels, f"rate({counter}[$__rate_interval])")


def _percentiles(signal: str, title: str, what: str) -> Panel:
    series = (
        f'slo_agent_latency_percentile_seconds{{{ALL_TOGETHER},signal="{signal}",percentile=~"p50|p99",window="5m"}}'
    )
    return Panel(
        title,
        f"{what} All targets, last 5 minutes. Dashed: the proven bounds. From an engine's histogram a percentile is "
        "known only to lie in one bucket; the value is a guess inside it.",
        "s",
        (Query(_max("percentile, bound", series), "{{percentile}} {{bound}}"),),
        width=6,
        bounds=True,
    )


def _per_target(metric: str, labels: str = "") -> Query:
    return Query(_max("target", f"{metric}{{{EACH}{labels}}}"), "{{target}}")


PROMISES = Row(
    "Promises: burn and budget",
    (
        Panel(
            "Alerts that fire",
            "How many alerts of the agents fire now: page wakes somebody, ticket waits for the morning.",
            "none",
            (Query(_sum("severity", f"slo_agent_alerts_firing{{{AGENT}}}"), "{{severity}}", instant=True),),
            kind="stat",
            width=4,
            steps=((None, "green"), (1.0, "red")),
        ),
        Panel(
            "Error budget left",
            "1 is untouched, 0 spent, below 0 overspent. An SLO without events has none.",
            "percentunit",
            (Query(f"slo_agent_error_budget_remaining_ratio{{{SLO}}}", "{{slo}}", instant=True),),
            kind="bargauge",
            width=8,
            minimum=-1,
            maximum=1,
            steps=BUDGET_STEPS,
        ),
        Panel(
            "Which alerts",
            "Every alert that fires, with the labels it has in Alertmanager.",
            "none",
            (Query(f"slo_agent_alert_firing{{{AGENT}}}", instant=True),),
            kind="table",
            width=12,
        ),
        Panel(
            "Burn rate, last 1 h and 5 min",
            "How many times faster than allowed the budget is spent. A page is due while both windows are above 14.4 "
            "(for the standard windows and a period of 30 days).",
            "none",
            (Query(_max("slo, window", f'slo_agent_burn_rate{{{SLO},window=~"5m|1h"}}'), "{{slo}} {{window}}"),),
            steps=((None, "transparent"), (14.4, "red")),
        ),
        Panel(
            "Error budget left, over time",
            "A rolling budget: old errors leave the period as new ones come in.",
            "percentunit",
            (Query(f"slo_agent_error_budget_remaining_ratio{{{SLO}}}", "{{slo}}"),),
            minimum=None,
            maximum=1,
            steps=BUDGET_STEPS,
        ),
        Panel(
            "Events counted",
            "Good, bad and undecided events of each SLO; undecided ones lie in the bucket around the threshold.",
            "ops",
            (Query(_rate("slo, result", f"slo_agent_events_total{{{SLO}}}"), "{{slo}} {{result}}"),),
        ),
    ),
)

EXPERIENCE = Row(
    "What users feel",
    (
        _percentiles("ttft", "Time to first token", "Arrival at the engine to the first token, queueing included."),
        _percentiles(
            "itl", "Inter-token latency", "The gap between two outputs of one request: what makes text stutter."
        ),
        _percentiles("tpot", "Time per output token", "Per request: the mean time per token after the first."),
        _percentiles("e2e", "Whole request", "Arrival at the engine to the last token."),
        Panel(
            "TTFT p99 by target",
            "Which target is slow. Where the value lies above the last bucket there is none, only a lower bound.",
            "s",
            (
                Query(
                    _max(
                        "target",
                        f'slo_agent_latency_percentile_seconds{{{EACH},signal="ttft",percentile="p99",window="5m",'
                        'bound="value"}',
                    ),
                    "{{target}}",
                ),
            ),
        ),
        Panel(
            "TTFT, every request",
            "How many requests had which time to first token. Two bands apart mean two kinds of requests.",
            "none",
            (
                Query(
                    _sum(
                        "le",
                        f'increase(slo_agent_ttft_seconds_bucket{{{EACH},model=~"$model",source="engine"}}'
                        "[$__rate_interval])",
                    ),
                    "{{le}}",
                ),
            ),
            kind="heatmap",
        ),
        Panel(
            "Goodput",
            "Share of requests that kept every latency threshold at once, last 5 minutes. Histograms tell it only "
            "between bounds; canaries tell it exactly, of themselves.",
            "percentunit",
            (
                Query(_max("bound", f"slo_agent_goodput_ratio{{{AGENT}}}"), "requests {{bound}}"),
                Query(_max("bound", f'slo_agent_canary_goodput_ratio{{{AGENT},bound="value"}}'), "canaries"),
            ),
            maximum=1,
            bounds=True,
        ),
    ),
)

LOAD = Row(
    "Load and capacity",
    (
        Panel(
            "Requests finished",
            "Requests that came to an end, per second, over the last 5 minutes.",
            "reqps",
            (Query(_sum("target", f'slo_agent_request_rate_per_second{{{EACH},window="5m"}}'), "{{target}}"),),
            stacked=True,
        ),
        Panel(
            "Tokens",
            "Prompt tokens read and tokens generated, per second, all targets, last 5 minutes.",
            "none",
            (
                Query(f'sum(slo_agent_prompt_tokens_per_second{{{ALL_TOGETHER},window="5m"}})', "prompt tokens/s"),
                Query(
                    f'sum(slo_agent_generation_tokens_per_second{{{ALL_TOGETHER},window="5m"}})', "generated tokens/s"
                ),
            ),
        ),
        Panel(
            "In the batch, and waiting",
            "Requests that run, and requests that wait for a place. Waiting ones that stay mean: too little capacity.",
            "none",
            (
                Query(_sum("target", f"slo_agent_requests_running{{{EACH}}}"), "{{target}} running"),
                Query(_sum("target", f"slo_agent_requests_waiting{{{EACH}}}"), "{{target}} waiting"),
            ),
        ),
        Panel(
            "Failed requests",
            "Share of finished requests that failed, last 5 minutes.",
            "percentunit",
            (_per_target("slo_agent_failed_ratio", ',window="5m"'),),
            width=6,
        ),
        Panel(
            "Preemptions",
            "Requests pushed out of the batch within 5 minutes for want of KV cache; each computes its prompt again.",
            "none",
            (_per_target("slo_agent_preemptions", ',window="5m"'),),
            width=6,
        ),
        Panel(
            "Replicas advised",
            "What the newest open scaling advice proposes, with its bounds; empty without advice. The reasons are on "
            "the agent's page.",
            "none",
            (
                Query(
                    _max("model, role, bound", f'slo_agent_recommended_replicas{{{AGENT},model=~"$model"}}'),
                    "{{model}} {{role}} {{bound}}",
                ),
            ),
            width=6,
            bounds=True,
        ),
        Panel(
            "Confidence of the advice",
            "How sure the newest open advice is, 0 to 1.",
            "percentunit",
            (
                Query(
                    _max("model, role, action", f'slo_agent_recommendation_confidence{{{AGENT},model=~"$model"}}'),
                    "{{model}} {{role}} {{action}}",
                ),
            ),
            width=6,
            maximum=1,
        ),
    ),
)

CACHE = Row(
    "KV cache",
    (
        Panel(
            "KV cache in use",
            "Part of the KV blocks that running requests hold. Near 1 requests wait or are preempted.",
            "percentunit",
            (_per_target("slo_agent_kv_usage_ratio"),),
            width=12,
            maximum=1,
        ),
        Panel(
            "Prompt tokens found in a cache",
            "By tier: prefix is the GPU's own cache, external a KV connector, others are tiers of a cache server. All "
            "targets, last 5 minutes.",
            "percentunit",
            (Query(_max("tier", f"slo_agent_kv_hit_ratio{{{AGENT}}}"), "{{tier}}"),),
            width=12,
            maximum=1,
        ),
    ),
)
