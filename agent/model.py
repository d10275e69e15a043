"""The nouns of the core, all frozen: what is promised, what was counted, what follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Severity = Literal["page", "ticket"]
Tier = Literal["fast", "slow", "trend"]
SliName = Literal["availability", "ttft", "itl", "tpot", "e2e", "queue", "goodput", "stall", "correctness", "composite"]
SliSource = Literal["engine", "canary", "span", "router", "slos"]
SloState = Literal["ok", "burning", "exhausted", "no_traffic", "no_data", "insufficient_data"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with what the measurement can prove about it (see `docs/figures.md`).

    `low` and `high` bound the truth about *these* events; None on either side means unbounded there (a percentile in
    a histogram's last bucket has no `high` and no `value`). `ci_low`/`ci_high` is the 95 % sampling interval.
    `count` is the number of events behind the figure.
    """

    value: float | None
    low: float | None
    high: float | None
    count: float
    ci_low: float | None = None
    ci_high: float | None = None


class Counts(NamedTuple):
    """Events of an SLI. `undecided` ones are known to have happened, but not on which side of the threshold.

    A tuple, because every tick makes hundreds of them.
    """

    good: float = 0.0
    bad: float = 0.0
    undecided: float = 0.0

    @property
    def total(self) -> float:
        return self.good + self.bad + self.undecided

    def __add__(self, other: "Counts") -> "Counts":  # type: ignore[override]  # of counts, and no longer tuple
        return Counts(self.good + other.good, self.bad + other.bad, self.undecided + other.undecided)


@dataclass(frozen=True, slots=True)
class Events:
    """Counts that arose somewhere in (from_seconds, to_seconds]; equal stamps mean an instant."""

    from_seconds: float
    to_seconds: float
    counts: Counts


@dataclass(frozen=True, slots=True)
class BurnPair:
    """One line of a multi-window, multi-burn-rate policy: alert when both windows burn faster than `factor`."""

    severity: Severity
    tier: Tier
    short_seconds: float
    long_seconds: float
    factor: float


@dataclass(frozen=True, slots=True)
class Slo:
    """A promise: `objective_ratio` of the events of `sli` are good over a rolling `period_seconds`.

    With `calendar` the budget runs over the present day, week, month or quarter of `time_zone` instead, and
    `period_seconds` is that unit's usual length. It counts nothing before `epoch_seconds`. `policy` is what was agreed
    to happen when the budget is spent. `engine` is vLLM's label; `target_labels` are those that a target must have.

    `threshold_seconds` is the latency a good event keeps; for availability it is the time within which a request must
    have ended, for stall the longest gap between two tokens. Goodput has `ttft_seconds` and `tpot_seconds` instead.
    `undecided` says how events count whose side of the threshold the histogram cannot tell. `min_bad_events` and
    `volume_gate` keep a few bad events of little traffic from alerting, `calm_windows` is the hysteresis of an alert
    that comes back, and `hold_seconds` how long one survives without data (docs/slo.md).

    With `slice_seconds` its events are slices of time that long: good where `slice_good_ratio` of their events are. A
    composite has `all_of` instead of that ratio: a slice is good where it is good for each of these SLOs.
    """

    name: str
    service: str
    sli: SliName
    source: SliSource
    objective_ratio: float
    period_seconds: float
    pairs: tuple[BurnPair, ...]
    threshold_seconds: float | None = None
    model: str | None = None
    role: str | None = None
    undecided: Literal["bad", "good"] = "bad"
    min_bad_events: int = 3
    volume_gate: bool = True
    calm_windows: float = 3.0
    hold_seconds: float = 86_400.0
    runbook_url: str = ""
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    calendar: Literal["day", "week", "month", "quarter"] | None = None
    time_zone: str = "UTC"
    epoch_seconds: float | None = None
    policy: str = ""
    violated_minute_dollars: float | None = None
    engine: str | None = None
    target_labels: tuple[tuple[str, str], ...] = ()
    slice_seconds: float | None = None
    slice_good_ratio: float | None = None
    all_of: tuple[str, ...] = ()

    @property
    def budget_ratio(self) -> float:
        """The share of events that may be bad: 1 - objective."""
        return 1.0 - self.objective_ratio

    @property
    def good_request_ratio(self) -> float:
        """The share of requests that must be good at any time: of an SLO that counts slices, that of a good slice."""
        return self.objective_ratio if self.slice_good_ratio is None else self.slice_good_ratio


@dataclass(frozen=True, slots=True)
class Burn:
    """How one pair stands now, with the counts it was computed from.

    `reason` is "burning", "within_budget", "too_few_bad_events", "too_little_volume", "no_events" or
    "excluded": it would burn if an exclusion did not take events out.
    A rate is None when its window saw no events. `coverage_ratio` is the part of the long window that was watched; the
    rest of it is taken to be just as busy, and good. `spent_ratio` is the part of the whole period's budget that the
    long window spent, at the period's own traffic; None where less than a day of it was watched.
    """

    pair: BurnPair
    short_rate: float | None
    long_rate: float | None
    short_counts: Counts
    long_counts: Counts
    is_burning: bool
    reason: str
    coverage_ratio: float = 1.0
    spent_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """What is left of the error budget: 1 is untouched, 0 spent, below 0 overspent (not clamped); None: no events.

    `remaining_ratio` is that of the whole period. `coverage_ratio` is the part of the period that the counts cover;
    the rest is taken to be just as busy, and good: what is spent is what was seen to be spent.
    `observed_remaining_ratio` is that of the covered part alone, as if it were the whole period. `violated_minutes` is
    the bad share of the covered time: an hour with half of all events bad is 30. `empty_slices` are the slices of the
    covered part that saw no event, or that nobody told of; None where events are not slices.
    """

    remaining_ratio: float | None
    counts: Counts
    coverage_ratio: float
    observed_remaining_ratio: float | None = None
    violated_minutes: float | None = None
    empty_slices: float | None = None


@dataclass(frozen=True, slots=True)
class Excluded:
    """A stretch of the period that counts for nothing: why, who said so, and the events that lie in it."""

    from_seconds: float
    to_seconds: float
    reason: str
    by: str
    counts: Counts


@dataclass(frozen=True, slots=True)
class Silence:
    """Why nothing can be said about an SLO now: `reason` for machines, `detail` for people.

    idle: sources are well, and nobody asks. rolling_out: engines begin anew. down: no source answers. blind: nothing
    reads what this SLO counts. insufficient: too few events to judge.
    """

    reason: Literal["idle", "rolling_out", "down", "blind", "insufficient"]
    detail: str


@dataclass(frozen=True, slots=True)
class SloStatus:
    """Everything known about one SLO at one moment. `silence` is None while there is something to judge by."""

    slo: Slo
    state: SloState
    burns: tuple[Burn, ...]
    budget: Budget
    last_event_at_seconds: float | None
    silence: Silence | None = None
    excluded: tuple[Excluded, ...] = ()


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert as Alertmanager understands it: the labels are its identity, and values never stand in them.

    `ends_at_seconds` is None while it fires. Times are in the agent's clock.
    """

    labels: tuple[tuple[str, str], ...]
    annotations: Mapping[str, str]
    starts_at_seconds: float
    ends_at_seconds: float | None = None

    @property
    def name(self) -> str:
        return dict(self.labels)["alertname"]

    @property
    def is_firing(self) -> bool:
        return self.ends_at_seconds is None


@dataclass(frozen=True, slots=True)
class Evidence:
    """One figure a recommendation stands on. `value` is None where it is not known."""

    signal: str
    window_seconds: float
    value: float | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Something that the figures prove together: a closed code, the sentence, and what it stands on."""

    code: str
    words: str
    evidence: tuple[Evidence, ...]


Action = Literal["scale", "rebalance", "topology", "knob", "kv_tier", "route", "repair", "none"]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Advice with its reasons; the JSON shape is fixed in docs/recommendations.md."""

    id: str
    at_seconds: float
    model: str
    role: str
    action: Action
    current: float
    proposed: float
    low: float
    high: float
    reason_code: str
    binding: str
    summary: str
    confidence: float
    meets_slo: bool | None
    evidence: tuple[Evidence, ...]
    alternatives: tuple[Mapping[str, object], ...]
    do_nothing: Mapping[str, object]
    side_effects: tuple[str, ...]
    steps: tuple[str, ...]
    rollback: str
    verify_at_seconds: float
    verdict: str | None = None
    verdict_at_seconds: float | None = None

    @property
    def is_by_model(self) -> bool:
        """Whether it is scaling advice that a model of a replica gave, which follows the load up and down."""
        return self.action == "scale" and self.reason_code in ("scale_out", "scale_in", "no_traffic")


@dataclass(frozen=True, slots=True)
class ReplicaWish:
    """How many replicas a model's role should have now; told at every tick, so that an autoscaler can follow it.

    `value` is `current` where nothing is to change, and also where nothing can be told: then `confidence` is 0 and
    `reason` says why ("no_model", "bad_data", ...). `low` and `high` are the range that the evidence allows.
    """

    model: str
    role: str
    current: int
    value: int
    low: int
    high: int
    confidence: float
    reason: str
    rate_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """How one target looks from here.

    `health` is "up", "stale" (scrapes fail, not yet long enough to say down), "down", "stuck" (it answers, but does
    not progress) or "unknown" (never seen). `detail` is the last outcome in words.
    """

    name: str
    source: str
    health: Literal["up", "stale", "down", "stuck", "unknown"]
    last_seen_seconds: float | None
    last_outcome: str
    detail: str
    model: str
    role: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LearnedEngine:
    """What one kind of engine has shown of its step time (docs/capacity.md); None where too little was seen so far.

    `version` rises when the engine is another one than before: what was learned of the old one is dropped.
    `stretches` are the busy ones it was learned from. The split of the decode cost is None where data cannot tell it.
    """

    model: str
    role: str
    gpu_type: str
    version: int
    kv_capacity_tokens: float
    stretches: int
    fit_error_ratio: float | None = None
    step_overhead_seconds: float | None = None
    prefill_seconds_per_token: float | None = None
    decode_seconds_per_sequence: float | None = None
    decode_seconds_per_kv_token: float | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the world after one tick, for the outputs."""

    at_seconds: float
    slos: tuple[SloStatus, ...]
    targets: tuple[TargetStatus, ...]
    alerts: tuple[Alert, ...]
    recommendations: tuple[Recommendation, ...]
    replicas: tuple[ReplicaWish, ...] = ()
    capacity: tuple[LearnedEngine, ...] = ()


@dataclass(frozen=True, slots=True)
class Effects:
    """What a tick wants done: alerts whose state changed, recommendations that are new or got a verdict."""

    changed_alerts: tuple[Alert, ...]
    changed_recommendations: tuple[Recommendation, ...]
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of one latency over one window; a percentile is None where nothing was observed."""

    p50: Figure | None
    p90: Figure | None
    p95: Figure | None
    p99: Figure | None
    mean: float | None
    count: float
