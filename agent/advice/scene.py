"""The scene a rule looks at: what is promised, who serves, and what engines have shown of themselves."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from agent.advice.capacity import EngineCapacity, Objective, Prediction, Signal
from agent.advice.capacity_book import CapacityBook, Kind, Learned
from agent.advice.domain import Domain, domain_of
from agent.advice.engine_facts import EngineFacts, engine_facts
from agent.advice.rehearsal import EngineLimits, Load
from agent.advice.step_model import StepModel
from agent.advice.token_budget import TokenBudget, said_token_budget
from agent.advice.traffic import Traffic, traffic_of
from agent.model import Evidence, SloStatus, TargetStatus
from agent.plan import Plan
from agent.sli.count import concerns
from agent.stats.buckets import Buckets, merged, share_over
from agent.windows import Increment, Windows

LOAD_SECONDS = 300.0  # what the load is now
LEARN_SECONDS = 3_600.0  # what a model is fitted on
DEFAULT_SEQUENCES = 256  # vLLM 0.32's default max_num_seqs of a server on GPUs below 70 GiB; on larger ones it is 1024
LEAST_REQUESTS = 30.0  # in the last minutes
LEAST_STRETCHES = 20  # busy ones
STEADY_RATIO = 0.7  # of the batch that requests felt is there on average: then the rate tells the load
NOT_FULL = 0.9  # of the rate an engine can serve: above it a closed loop is likelier than luck
USUAL_SPREAD = 0.3  # of lengths around their mean, where only the mean is known


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything at one moment. Rules read it and nothing else; what several of them ask for is computed once."""

    plan: Plan
    statuses: Sequence[TargetStatus]
    slos: Sequence[SloStatus]
    windows: Windows
    now_seconds: float
    _increments: dict[tuple[float, tuple[str, ...]], Sequence[Increment]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _observed: dict[tuple[str, tuple[str, ...]], Buckets | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _views: dict[tuple[str, ...], "GroupView | None"] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def groups(self) -> Mapping[tuple[str, str], list[TargetStatus]]:
        """The vLLM targets that answer, by model and role."""
        found: dict[tuple[str, str], list[TargetStatus]] = {}
        for status in self.statuses:
            if status.source == "vllm" and status.health == "up" and status.model:
                found.setdefault((status.model, status.role), []).append(status)
        return dict(sorted(found.items()))

    def increments(self, group: Iterable[TargetStatus], seconds: float) -> Sequence[Increment]:
        """What these targets did in the last so many seconds, in the order of time."""
        place = seconds, tuple(status.name for status in group)
        if place not in self._increments:
            found = self.windows.between(self.now_seconds - seconds, self.now_seconds, place[1])
            self._increments[place] = sorted(found, key=lambda increment: increment.to_seconds)
        return self._increments[place]

    def view(self, group: Sequence[TargetStatus]) -> "GroupView | None":
        """The group as its model sees it; see `view_of`."""
        names = tuple(status.name for status in group)
        if names not in self._views:
            self._views[names] = view_of(self, group)
        return self._views[names]

    def promises(self, group: Sequence[TargetStatus]) -> list[SloStatus]:
        """The latency SLOs that these targets are to keep."""
        return [
            status
            for status in self.slos
            if status.slo.sli in get_args(Signal)
            and any(concerns(status.slo, self.plan.targets.get(t.name), t.model) for t in group)
        ]

    def misses(self, group: Sequence[TargetStatus], status: SloStatus) -> bool:
        """Whether more requests (gaps, for itl) than the budget allows were surely too slow in the last minutes."""
        buckets = self._together(group, f"{status.slo.sli}_seconds")
        if buckets is None or status.slo.threshold_seconds is None:
            return False
        share = share_over(buckets, status.slo.threshold_seconds, are_independent=False)
        return share is not None and share.low is not None and share.low > 1.0 - status.slo.good_request_ratio

    def _together(self, group: Sequence[TargetStatus], signal: str) -> Buckets | None:
        """The observations of the last minutes; None where no page had the histogram."""
        place = signal, tuple(status.name for status in group)
        if place not in self._observed:
            self._observed[place] = observations(self.increments(group, LOAD_SECONDS), signal)
        return self._observed[place]

    def dollars_per_hour(self, group: Sequence[TargetStatus]) -> float | None:
        """What these targets cost together; None unless each has a price."""
        rates = [facts.dollars_per_second for s in group if (facts := self.plan.targets.get(s.name))]
        known = [rate for rate in rates if rate is not None]
        return sum(known) * 3600 if known and len(known) == len(group) else None


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group of replicas as its model sees it. `load` is what one replica has now: so many requests a second where
    the load is steady, else so many users at once as requests felt.
    """

    group: Sequence[TargetStatus]
    engine: EngineCapacity
    budget: TokenBudget
    facts: EngineFacts
    load: Load
    traffic: Traffic
    domain: Domain


def view_of(scene: Scene, group: Sequence[TargetStatus]) -> GroupView | None:
    """The view; None where too little was seen for a model, where the load is not known or out of its domain,
    and where requests have no tokens (a pooling model generates none): they are no load of this kind.
    """
    increments = scene.increments(group, LEARN_SECONDS)
    book = CapacityBook()
    book.take(increments, lambda key: Kind(key.model, "", ""))
    learned = next(iter(book.learned.values()), None)
    if learned is None or (steps := learned.steps) is None or steps.samples < LEAST_STRETCHES:
        return None
    traffic = traffic_of(scene.increments(group, LOAD_SECONDS))
    if traffic.felt_running is None:
        return None
    if not traffic.input_tokens or not traffic.output_tokens or (traffic.requests or 0.0) < LEAST_REQUESTS:
        return None
    facts = engine_facts([scene.plan.targets.get(status.name) for status in group], increments)
    engine, budget = engine_of(learned, steps, facts)
    reuse = traffic.hit_ratio or 0.0
    users = max(1, round(traffic.felt_running))
    load = Load(traffic.input_tokens, traffic.output_tokens, users, None, USUAL_SPREAD, reuse, traffic.hits_are_whole)
    each = (traffic.rate or 0.0) / len(group)
    is_steady = (traffic.mean_running or 0.0) / len(group) > STEADY_RATIO * traffic.felt_running
    if is_steady and 0 < each < NOT_FULL * engine.full_rate(load):
        load = replace(load, concurrency=None, rate=each, routed_over=len(group))
    domain = domain_of(learned.book.samples, steps, traffic, group[0].model, facts.refusals, facts.cautions)
    if domain.refusals_of(load, users):
        return None
    return GroupView(group, engine, budget, facts, load, traffic, domain)


def engine_of(learned: Learned, steps: StepModel, facts: EngineFacts) -> tuple[EngineCapacity, TokenBudget]:
    """The engine with what is said of it, or its pages let infer, and where its token budget comes from."""
    budget = said_token_budget(facts) or learned.token_budget()
    limits = EngineLimits(budget.tokens, facts.max_sequences or DEFAULT_SEQUENCES, learned.kv_capacity_tokens)
    return EngineCapacity(steps, limits, learned.front_end_seconds(budget.tokens) or 0.0), budget


def observations(increments: Iterable[Increment], signal: str) -> Buckets | None:
    """All observations of one histogram; None where no page had it."""
    found = (increment.histograms.get(signal) for increment in increments)
    return merged(buckets for buckets in found if buckets is not None)


def objectives_of(statuses: Iterable[SloStatus]) -> tuple[Objective, ...]:
    """What these SLOs ask of one engine."""
    promised = [(status.slo.sli, status.slo.threshold_seconds, status.slo.good_request_ratio) for status in statuses]
    return tuple(
        Objective(signal, seconds, ratio)
        for sli, seconds, ratio in promised
        for signal in get_args(Signal)
        if sli == signal and seconds is not None
    )


def burn_rates(scene: Scene, group: Sequence[TargetStatus]) -> Iterator[Evidence]:
    """How fast the promises that these targets miss now burn: advice that is to mend them is judged by it."""
    yield from burns_of(status for status in scene.promises(group) if scene.misses(group, status))


def burns_of(promises: Iterable[SloStatus]) -> Iterator[Evidence]:
    """How fast each of these burns, over its shortest pair's long window."""
    for status in promises:
        for burn in status.burns[:1]:
            yield Evidence(f"burn_rate:{status.slo.name}", burn.pair.long_seconds, burn.long_rate)


def untold(setting: str, dollars_per_hour: float | None = None) -> dict[str, object]:
    """One setting of which nothing can be predicted."""
    return {
        "setting": setting,
        "ttft_p95_seconds": None,
        "itl_p99_seconds": None,
        "goodput_ratio": None,
        "dollars_per_hour": dollars_per_hour,
        "meets_slo": None,
    }


def alternative(setting: str, said: Prediction, dollars_per_hour: float | None) -> dict[str, object]:
    """One setting with what is predicted for it; the latencies are those of the value."""
    return {
        "setting": setting,
        "ttft_p95_seconds": None if said.ttft_p95_seconds is None else said.ttft_p95_seconds.value,
        "itl_p95_seconds": None if said.itl_p95_seconds is None else said.itl_p95_seconds.value,
        "itl_p99_seconds": None if said.itl_p99_seconds is None else said.itl_p99_seconds.value,
        "goodput_ratio": None,
        "dollars_per_hour": dollars_per_hour,
        "meets_slo": said.meets_slo,
    }
