"""Signals as a real engine would show them: overloaded, idle, and all together. Percentiles are buckets, so bounds."""

from agent.model import Figure, Latency
from agent.signals.model import Level, Signals


def bucket(low: float, value: float, high: float | None, count: float) -> Figure:
    """A percentile out of a histogram; without `high` it lies in the last bucket and has no value either."""
    return Figure(value if high is not None else None, low, high, count)


def overloaded() -> Signals:
    """Requests wait: TTFT is far out, its p99 beyond the last bucket, the GPU is full."""
    n = 5213.0
    return Signals(
        seconds=300.0,
        ttft_seconds=Latency(
            bucket(1.0, 1.84, 2.5, n),
            bucket(5.0, 6.9, 7.5, n),
            bucket(7.5, 8.8, 10.0, n),
            bucket(80.0, 0, None, n),
            2.9,
            n,
        ),
        itl_seconds=Latency(
            bucket(0.01, 0.0171, 0.025, n * 180),
            bucket(0.025, 0.031, 0.05, n * 180),
            bucket(0.05, 0.062, 0.075, n * 180),
            bucket(0.1, 0.118, 0.15, n * 180),
            0.0224,
            n * 180,
        ),
        tpot_seconds=Latency(
            bucket(0.01, 0.021, 0.025, n), bucket(0.025, 0.034, 0.05, n), bucket(0.025, 0.041, 0.05, n), None, 0.0229, n
        ),
        e2e_seconds=Latency(
            bucket(2.5, 4.4, 5.0, n),
            bucket(10.0, 12.7, 15.0, n),
            bucket(10.0, 14.2, 15.0, n),
            bucket(20.0, 24.1, 30.0, n),
            5.6,
            n,
        ),
        queue_seconds=Latency(
            bucket(1.0, 1.6, 2.5, n),
            bucket(5.0, 6.1, 7.5, n),
            bucket(7.5, 8.1, 10.0, n),
            bucket(10.0, 13.0, 15.0, n),
            2.2,
            n,
        ),
        request_rate_per_second=17.38,
        prompt_tokens_per_second=18_420.0,
        generation_tokens_per_second=3_211.5,
        prompt_tokens=5_526_000.0,
        generation_tokens=963_450.0,
        requests_finished=n,
        requests_finished_by_reason={"stop": 5100.0, "length": 101.0, "abort": 12.0},
        goodput_per_second=Figure(None, 3.1, 6.4, n),
        goodput_ratio=Figure(None, 0.178, 0.368, n),
        canary_goodput_ratio=Figure(0.4, 0.4, 0.4, 10, 0.12, 0.74),
        canaries=10.0,
        canaries_failed=2.0,
        probe_share_ratio=0.0004,
        prefix_cache_hit_ratio=0.412,
        external_cache_hit_ratio=None,
        cache_hit_ratio_by_tier={"hbm": 0.412, "cpu": 0.093},
        kv_usage_ratio=Level(0.943, 0.998, 0.981),
        requests_running=Level(254.1, 256, 256),
        requests_waiting=Level(88.4, 141, 127),
        preemptions=37.0,
        failed_ratio=0.0023,
        gpu_utilization_ratio=0.991,
        power_watts=661.0,
        tokens_per_joule=4.86,
        tokens_per_dollar=None,
    )


def idle() -> Signals:
    """Up, but no requests: zeros are measured, latencies are unknown, and this machine has no GPU reading."""
    return Signals(
        seconds=300.0,
        request_rate_per_second=0.0,
        prompt_tokens_per_second=0.0,
        generation_tokens_per_second=0.0,
        requests_finished=0.0,
        kv_usage_ratio=Level(0.0, 0.0, 0.0),
        requests_running=Level(0.0, 0.0, 0.0),
        requests_waiting=Level(0.0, 0.0, 0.0),
        preemptions=0.0,
    )


def fleet() -> Signals:
    """All targets together: here the overloaded one, since nobody else had traffic."""
    return overloaded()
