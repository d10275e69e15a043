"""The signals, all frozen: what users feel, what engines do, what it costs; None is unknown."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.model import Figure, Latency
from probes.sample import HistogramSample


@dataclass(frozen=True, slots=True)
class LatencyTotal:
    """All observations of one latency since the agent started, for a Prometheus histogram.

    `source` is "engine", "canary", "span", or the part of "engine" that is our canaries': "contribution_low" as if each
    of them lay as low as it can, "contribution_high" as if as high as it can.
    `histogram.signal` is ttft_seconds, itl_seconds, tpot_seconds or e2e_seconds.
    """

    target: str
    source: str
    histogram: HistogramSample


@dataclass(frozen=True, slots=True)
class Level:
    """A gauge over a window: mean and largest of the readings, and the newest one."""

    mean: float
    max: float
    last: float


@dataclass(frozen=True, slots=True)
class KvTransfer:
    """KV that decode instances pulled over NIXL within one window; counted on the side that starts a transfer.

    `post_seconds` is the part of a transfer in which the engine's loop stands still. `failed` holds the failed
    notifications already. `expired_requests` are those whose KV nobody came for in time (told by prefill instances).
    """

    transfer_seconds: Latency | None
    post_seconds: Latency | None
    transfers: float | None
    transferred_bytes: float | None
    descriptors: float | None
    failed: float | None
    expired_requests: float | None
    late_notifications: float | None


@dataclass(frozen=True, slots=True)
class PdService:
    """Prefill and decode instances as one service, within one window.

    A user's TTFT is the prefill instance's E2E, the way between, and the decode instance's TTFT; no engine sees the way
    between. `transfer_share_ratio` and `post_share_ratio` are the parts of mean TTFT that the KV transfer, and its
    posting, take. `posting_ratio` is the part of the window in which a decode instance posted, all of them added up.
    """

    prefill_targets: tuple[str, ...]
    decode_targets: tuple[str, ...]
    prefill_e2e_seconds: Latency | None
    decode_ttft_seconds: Latency | None
    transfer_share_ratio: float | None
    post_share_ratio: float | None
    posting_ratio: float | None
    prefill_running: Level | None
    prefill_waiting: Level | None
    decode_running: Level | None
    decode_waiting: Level | None
    decode_kv_usage_ratio: Level | None


@dataclass(frozen=True, slots=True)
class RouterWork:
    """What routers did within one window, by their own counters; what a router has no counter for is None.

    `failed_by_reason` are in the routers' words. `cancelled` clients hung up, `refused` ones asked for what cannot be:
    both are in neither `answered` nor `failed`. `retries` and `worker_failures` are attempts: clients see none.
    """

    answered: float
    failed: float
    failed_by_reason: Mapping[str, float]
    cancelled: float
    refused: float
    failed_ratio: float | None
    retries: float | None
    worker_failures: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    ttft_seconds: Latency | None
    itl_seconds: Latency | None
    tpot_seconds: Latency | None
    e2e_seconds: Latency | None
    requests_inside: Level | None


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """What a store of KV objects (Mooncake) did within one window. Objects are no tokens: this is no KV hit rate."""

    lookups: float | None
    hits: float | None
    object_hit_ratio: float | None
    puts: float | None
    failed_allocations: float | None
    evicted_objects: float | None
    used_ratio: float | None
    clients: Level | None


@dataclass(frozen=True, slots=True)
class Workload:
    """What users ask for. `prompt_tokens` and `output_tokens` are distributions over requests, in tokens.

    `arrival_burstiness` is the variance of arrivals over their mean: 1 is a Poisson process, more are bursts.
    `arrival_trend_ratio_per_hour`: 0.1 grows by a tenth of its mean every hour. The two ratios after it compare with
    the same window one day and one week before. `reuse_kind` is none, shared_prefix, multi_turn or unclear.
    """

    arrivals_per_second: float | None = None
    arrival_burstiness: float | None = None
    arrival_trend_ratio_per_hour: float | None = None
    arrivals_over_yesterday_ratio: float | None = None
    arrivals_over_last_week_ratio: float | None = None
    prompt_tokens: Latency | None = None
    output_tokens: Latency | None = None
    concurrency: Level | None = None
    reuse_kind: str | None = None


@dataclass(frozen=True, slots=True)
class Economics:
    """What the work costs. A user's speed is 1 / TPOT: of the median request, and of the slowest 5 % (at most so much).

    `tokens_per_user_per_dollar` is the median user's speed over dollars a second.
    """

    dollars_per_hour: float | None = None
    goodput_per_dollar: Figure | None = None
    tokens_per_second_per_user: Figure | None = None
    tokens_per_second_of_slowest_users: Figure | None = None
    tokens_per_user_per_dollar: Figure | None = None


@dataclass(frozen=True, slots=True)
class Signals:
    """What one target (or all of them together) did over one window. None is unknown, everywhere.

    `seconds` is the time actually covered by readings. Keys, units and meaning: docs/signals.md; the JSON of
    `slo-agent report` and /api/v1/signals has these very names.
    """

    seconds: float
    ttft_seconds: Latency | None = None
    itl_seconds: Latency | None = None
    tpot_seconds: Latency | None = None
    e2e_seconds: Latency | None = None
    queue_seconds: Latency | None = None
    canary_ttft_seconds: Latency | None = None
    canary_itl_seconds: Latency | None = None
    canary_tpot_seconds: Latency | None = None
    canary_e2e_seconds: Latency | None = None
    span_ttft_seconds: Latency | None = None
    span_tpot_seconds: Latency | None = None
    span_e2e_seconds: Latency | None = None
    over_threshold_ratio: Mapping[str, Figure | None] = field(default_factory=dict)
    request_rate_per_second: float | None = None
    prompt_tokens_per_second: float | None = None
    generation_tokens_per_second: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    requests_finished: float | None = None
    requests_finished_by_reason: Mapping[str, float] = field(default_factory=dict)
    goodput_per_second: Figure | None = None
    goodput_ratio: Figure | None = None
    canary_goodput_ratio: Figure | None = None
    span_goodput_ratio: Figure | None = None
    span_requests: float | None = None
    span_coverage_ratio: float | None = None
    canaries: float | None = None
    canaries_failed: float | None = None
    probe_share_ratio: float | None = None
    prefix_cache_hit_ratio: float | None = None
    external_cache_hit_ratio: float | None = None
    cache_hit_ratio_by_tier: Mapping[str, float] = field(default_factory=dict)
    itl_mean_seconds_by_engine: Mapping[str, float] = field(default_factory=dict)
    kv_usage_ratio: Level | None = None
    requests_running: Level | None = None
    requests_waiting: Level | None = None
    preemptions: float | None = None
    engine_steps: float | None = None
    kv_transfer: KvTransfer | None = None
    pd: PdService | None = None
    router: RouterWork | None = None
    object_store: ObjectStore | None = None
    failed_ratio: float | None = None
    gpu_utilization_ratio: float | None = None
    power_watts: float | None = None
    tokens_per_joule: float | None = None
    tokens_per_dollar: float | None = None
    workload: Workload | None = None
    economics: Economics | None = None
    best_source: Mapping[str, str] = field(default_factory=dict)
    disagreements: tuple[str, ...] = ()
