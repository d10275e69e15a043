"""The two pools of one model: what prefill and decode engines have shown, put together as one engine that does both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

from agent.advice.capacity import EngineCapacity
from agent.advice.capacity_book import CapacityBook, Kind, Learned
from agent.advice.domain import domain_of
from agent.advice.engine_facts import EngineFacts, engine_facts
from agent.advice.pd_stall import LEAST_POSTS
from agent.advice.readings import LEAST_COVERED_RATIO, are_all_read
from agent.advice.rehearsal import EngineLimits, Load
from agent.advice.scene import (
    DEFAULT_SEQUENCES,
    LEARN_SECONDS,
    LEAST_REQUESTS,
    LEAST_STRETCHES,
    LOAD_SECONDS,
    USUAL_SPREAD,
    Scene,
    observations,
)
from agent.advice.step_model import StepModel
from agent.advice.step_samples import prefilled_tokens
from agent.advice.token_budget import infer_token_budget, said_token_budget
from agent.advice.topologies import Transfer
from agent.advice.traffic import traffic_of
from agent.model import SloStatus, TargetStatus
from agent.signals.sums import Sums, add_up
from agent.stats.weighted import weighted_percentiles
from agent.windows import Increment

HALVES = ("prefill", "decode")
STRETCH_SECONDS = 20.0  # a prompt that a stretch cuts is small beside it
LEAST_PREFILLS = 5  # prompts in a stretch, and stretches in all
LEAST_OVERLAP = 0.25  # the quantile of stretches: in the others prompts were computed side by side, or none was there
LEAST_ERROR_RATIO = 0.05  # two engines' parts put together
PREFILL_ERROR_RATIO = 0.1  # of what a prompt costs, told by such stretches: 0 to 9 % on the simulator's plants


@dataclass(frozen=True, slots=True)
class Pools:
    """One model's pools. `engine` is one engine as if it did both halves, `load` what all of them together have now.

    `peak_rate` is the largest rate of five minutes in the last hour; None where not the whole hour was seen.
    `transfer` is measured, not assumed.
    """

    model: str
    prefill: Sequence[TargetStatus]
    decode: Sequence[TargetStatus]
    engine: EngineCapacity
    load: Load
    peak_rate: float | None
    transfer: Transfer

    @property
    def engines(self) -> int:
        return len(self.prefill) + len(self.decode)

    @property
    def members(self) -> Sequence[TargetStatus]:
        return (*self.prefill, *self.decode)

    def missed(self, scene: Scene) -> list[SloStatus]:
        """The promises that one half breaks by itself, for sure: a request's TTFT is no shorter than either half."""
        halves = (self.prefill, self.decode)
        return [s for s in scene.promises(self.members) if any(scene.misses(half, s) for half in halves)]


def pools_of(scene: Scene) -> Iterator[Pools]:
    """Of every model that prefills here and decodes there. None of a model where an engine of either pool is not read,
    or was not for a good part of the last minutes; where others do both halves beside them; where the pools' GPUs
    differ; and where too little was seen for a model of an engine, or it is out of its domain.
    """
    groups = scene.groups()
    for model in dict.fromkeys(name for name, _ in groups):
        prefill, decode = groups.get((model, "prefill")), groups.get((model, "decode"))
        if prefill is None or decode is None or (model, "aggregated") in groups:
            continue
        if are_all_read(scene, (*prefill, *decode), HALVES) and _are_alike(scene, (*prefill, *decode)):
            pools = _pools(scene, model, prefill, decode)
            if pools is not None:
                yield pools


def _are_alike(scene: Scene, members: Sequence[TargetStatus]) -> bool:
    facts = [scene.plan.targets.get(status.name) for status in members]
    return len({fact.gpu_type if fact else None for fact in facts}) == 1


def _pools(scene: Scene, model: str, prefill: Sequence[TargetStatus], decode: Sequence[TargetStatus]) -> Pools | None:
    asked, answered = (traffic_of(scene.increments(group, LOAD_SECONDS)) for group in (prefill, decode))
    learned = _learned(scene, decode)
    steps, transfer = _steps(learned), _transfer(add_up(scene.increments(decode, LOAD_SECONDS)))
    if learned is None or steps is None or transfer is None or (asked.requests or 0.0) < LEAST_REQUESTS:
        return None
    if not asked.input_tokens or not answered.output_tokens or answered.felt_running is None:
        return None
    seen = scene.increments(prefill, LEARN_SECONDS)
    per_token = prefill_seconds_per_token(seen, steps.overhead_seconds)
    if per_token is None:
        return None
    error = max(LEAST_ERROR_RATIO, steps.error_ratio)
    both = replace(steps, prefill_seconds_per_token=per_token, error_ratio=error)
    facts = [_facts(scene, group) for group in (prefill, decode)]
    budget = said_token_budget(facts[0]) or infer_token_budget(
        observations(seen, "step_tokens"), None, asked.input_tokens, both, 0.0
    )
    limits = EngineLimits(budget.tokens, facts[1].max_sequences or DEFAULT_SEQUENCES, learned.kv_capacity_tokens)
    front_end = _front_end_seconds(add_up(scene.increments(prefill, LOAD_SECONDS)))
    engine = EngineCapacity(both, limits, front_end, PREFILL_ERROR_RATIO)
    load = Load(
        asked.input_tokens,
        answered.output_tokens,
        rate=(asked.rate or 0.0) + _queue_growth(scene, prefill),
        spread_ratio=USUAL_SPREAD,
        hit_ratio=asked.hit_ratio or 0.0,
        hits_are_whole=asked.hits_are_whole,
    )
    said = [refusal for one in facts for refusal in one.refusals]
    domain = domain_of(learned.book.samples, steps, answered, model, said, facts[1].cautions)
    if domain.refusals_of(load, answered.felt_running):
        return None
    return Pools(model, prefill, decode, engine, load, _peak_rate(scene, prefill), transfer)


def _facts(scene: Scene, group: Sequence[TargetStatus]) -> EngineFacts:
    return engine_facts(
        [scene.plan.targets.get(status.name) for status in group], scene.increments(group, LEARN_SECONDS)
    )


def _learned(scene: Scene, decode: Sequence[TargetStatus]) -> Learned | None:
    """Without the stretches in which preempted prompts were computed again: nobody counts that work."""
    book, seen = CapacityBook(), scene.increments(decode, LEARN_SECONDS)
    whole = (increment for increment in seen if not increment.counters.get(("preemptions_total", "")))
    book.take(whole, lambda key: Kind(key.model, "", ""))
    return next(iter(book.learned.values()), None)


def _steps(learned: Learned | None) -> StepModel | None:
    steps = None if learned is None else learned.steps
    return steps if steps is not None and steps.samples >= LEAST_STRETCHES else None


def _transfer(sums: Sums) -> Transfer | None:
    """As the decode side measured it; None where it told of too few."""
    posts, transfers = sums.histogram("nixl_post_seconds"), sums.histogram("nixl_transfer_seconds")
    if posts is None or transfers is None or posts.count < LEAST_POSTS or transfers.count <= 0:
        return None
    if posts.total is None or transfers.total is None:
        return None
    post = posts.total / posts.count
    return Transfer(post, max(0.0, transfers.total / transfers.count - post))


def prefill_seconds_per_token(increments: Sequence[Increment], overhead_seconds: float) -> float | None:
    """What a prompt token costs an engine that only prefills; None where too little was computed.

    It worked no longer than time passed, and no longer than its prompts took one after the other: the lesser of both,
    less what its steps take anyway, over the tokens, is at least their cost. It is more where it stood idle or where
    prompts were computed side by side, so a low quantile of many stretches tells.
    """
    found = []
    for seconds, steps, tokens, prefills, prefill_seconds in _stretches(increments):
        if prefills >= LEAST_PREFILLS and tokens > 0:
            found.append(max(0.0, min(seconds, prefill_seconds) - overhead_seconds * steps) / tokens)
    if len(found) < LEAST_PREFILLS:
        return None
    return weighted_percentiles([(cost, 1.0) for cost in found], [LEAST_OVERLAP])[0]


def _stretches(increments: Sequence[Increment]) -> Iterator[tuple[float, float, float, float, float]]:
    """Seconds, steps, computed tokens, prompts and the time they took, of each engine, in stretches."""
    parts: dict[object, list[tuple[float, float, float, float, float]]] = {}
    for increment in increments:
        steps, prefills = increment.histograms.get("step_tokens"), increment.histograms.get("prefill_seconds")
        tokens = prefilled_tokens(increment)
        mine = parts.setdefault(increment.key, [])
        if steps is None or prefills is None or prefills.total is None or tokens is None or increment.restarted:
            mine.clear()
            continue
        seconds = increment.to_seconds - increment.from_seconds
        mine.append((seconds, steps.count, tokens, prefills.count, prefills.total))
        if sum(part[0] for part in mine) >= STRETCH_SECONDS:
            yield tuple(map(sum, zip(*mine, strict=True)))  # type: ignore[misc]
            mine.clear()


def _front_end_seconds(sums: Sums) -> float:
    """Before the engine's queue: the time to first token less queue and prefill; 0 where they do not tell."""
    parts = [sums.histogram(name) for name in ("ttft_seconds", "queue_seconds", "prefill_seconds")]
    means = [part.total / part.count for part in parts if part is not None and part.total is not None and part.count]
    return max(0.0, means[0] - means[1] - means[2]) if len(means) == len(parts) else 0.0


def _queue_growth(scene: Scene, group: Sequence[TargetStatus]) -> float:
    """Requests a second by which the queues of these engines grew; 0 where they shrank."""
    found: dict[object, list[tuple[float, float]]] = {}
    for increment in scene.increments(group, LOAD_SECONDS):
        waiting = increment.gauges.get(("requests_waiting", ""))
        if waiting is not None:
            found.setdefault(increment.key, []).append((increment.to_seconds, waiting))
    grown = [
        (seen[-1][1] - seen[0][1]) / (seen[-1][0] - seen[0][0]) for seen in found.values() if seen[-1][0] > seen[0][0]
    ]
    return max(0.0, sum(grown))


def _peak_rate(scene: Scene, group: Sequence[TargetStatus]) -> float | None:
    """The largest rate of first tokens in any five minutes of the last hour, one after the other."""
    increments = scene.increments(group, LEARN_SECONDS)
    if add_up(increments).covered_seconds("vllm") < LEAST_COVERED_RATIO * LEARN_SECONDS:
        return None
    first = scene.now_seconds - LEARN_SECONDS
    counts = [0.0] * ceil(LEARN_SECONDS / LOAD_SECONDS)
    for increment in increments:
        begun = increment.histograms.get("ttft_seconds")
        place = min(len(counts) - 1, int((increment.to_seconds - first) / LOAD_SECONDS))
        counts[place] += 0.0 if begun is None else begun.count
    return max(counts) / LOAD_SECONDS
