"""Everything that is known of one group's KV reuse and of the tiers it could have, and what each of them would do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from agent.advice.capacity import Objective
from agent.advice.reuse import ReuseCurve
from agent.advice.reuse_counts import Found, curve_with_tier, curve_without_tier, engine_memory_seconds, found_of
from agent.advice.scene import LOAD_SECONDS, GroupView, Scene, objectives_of
from agent.advice.tier_options import Outlook, Reuse, Seen, Setting, outlooks, setting_now
from agent.advice.tier_use import TierUse, tier_use
from agent.model import TargetStatus
from agent.plan import KvTier
from agent.signals.sums import Sums, add_up
from agent.signals.workload import reuse_kind
from agent.stats.buckets import Buckets, share_over

LENGTHS = 50  # of prompts, that stand for all
REUSE_SECONDS = 1_800.0  # what comes again is counted over so long: gaps of minutes have to fit in


@dataclass(frozen=True, slots=True)
class TierFacts:
    """What the rule chooses by. `engine_dollars` is an hour of one replica; None: no price is known. `use` is what the
    tier of now was measured to do, where vLLM's own offloading tells; `reuse_kind` as the signals have it.
    """

    now: Setting
    reuse: Reuse
    found: Found
    outlooks: Sequence[Outlook]
    has_objectives: bool
    engine_dollars: float | None
    ttft_seconds: float | None
    input_tokens: float
    prefill_seconds_per_token: float
    use: TierUse | None
    reuse_kind: str | None = None

    @property
    def current(self) -> Outlook | None:
        return next((one for one in self.outlooks if one.setting == self.now), None)


def tier_facts(scene: Scene, model: str, group: Sequence[TargetStatus], view: GroupView) -> TierFacts | None:
    """None where the config names no tier, or neither it nor the pages tell how large a token's KV is, how fast
    requests come, or how the cache is used.
    """
    tiers, kv_tokens, rate = scene.plan.advice.kv_tiers, view.engine.limits.kv_tokens, view.traffic.rate
    if not tiers or kv_tokens is None or rate is None:
        return None
    sums = add_up(scene.increments(group, REUSE_SECONDS))
    use = tier_use(add_up(scene.increments(group, LOAD_SECONDS)), view.engine.steps.prefill_seconds_per_token)
    kv_bytes = use.bytes_per_token if use is not None else scene.plan.advice.kv_bytes_per_token.get(model)
    found = found_of(sums)
    if kv_bytes is None or found is None:
        return None
    memory = engine_memory_seconds(sums, kv_tokens, len(group))
    if memory is None:
        return None
    if use is not None:
        tiers = tuple(_as_measured(tier, use) for tier in tiers)
    now = setting_now(tiers)
    asked = found.tokens / found.seconds / len(group) * kv_bytes
    curve = _curve(scene, group, sums, found, memory, now, asked)
    if curve is None:
        return None
    reuse = Reuse(curve, found.engine_ratio, memory, asked, kv_bytes)
    objectives, price = objectives_of(scene.promises(group)), scene.dollars_per_hour(group)
    lengths = input_lengths(sums.histogram("request_prompt_tokens"))
    load = replace(view.load, concurrency=None, rate=rate / len(group), routed_over=len(group), input_lengths=lengths)
    ttft = add_up(scene.increments(group, LOAD_SECONDS)).histogram("ttft_seconds")
    seconds = None if ttft is None or ttft.total is None or not ttft.count else ttft.total / ttft.count
    seen = Seen(seconds, () if ttft is None else tuple(_missed(ttft, objectives)))
    return TierFacts(
        now,
        reuse,
        found,
        outlooks(view.engine, load, tiers, reuse, objectives, seen),
        bool(objectives),
        None if price is None else price / len(group),
        seconds,
        view.load.input_tokens,
        view.engine.steps.prefill_seconds_per_token,
        use,
        reuse_kind(scene.increments(group, REUSE_SECONDS)),
    )


def _missed(ttft: Buckets, objectives: Sequence[Objective]) -> Iterator[tuple[Objective, float, float]]:
    for objective in objectives:
        if objective.signal == "ttft":
            share = share_over(ttft, objective.threshold_seconds, are_independent=False)
            if share is not None and share.low is not None and share.high is not None:
                yield objective, share.low, share.high


def input_lengths(prompts: Buckets | None) -> tuple[float, ...]:
    """Lengths as likely as each other, scaled to the mean that was counted; empty where the pages do not tell."""
    if prompts is None or not prompts.total or prompts.count < LENGTHS:
        return ()
    found: list[float] = []
    running = before = 0.0
    for edge, count in zip(prompts.edges, prompts.counts, strict=True):
        high = edge if isfinite(edge) else before
        while count and len(found) < LENGTHS and (len(found) + 0.5) * prompts.count / LENGTHS <= running + count:
            found.append(before + (high - before) * ((len(found) + 0.5) * prompts.count / LENGTHS - running) / count)
        running, before = running + count, high
    if not any(found):
        return ()  # all beyond the last edge there is, such as where only +Inf is left of the buckets
    scale = prompts.total / prompts.count / (sum(found) / len(found))
    return tuple(length * scale for length in found)


def _as_measured(tier: KvTier, use: TierUse) -> KvTier:
    """The tier in use at the speed it was seen at."""
    return replace(tier, bytes_per_second=use.bytes_per_second) if tier.in_use_gigabytes else tier


def _curve(
    scene: Scene,
    group: Sequence[TargetStatus],
    sums: Sums,
    found: Found,
    memory: float,
    now: Setting,
    asked_bytes_per_second: float,
) -> ReuseCurve | None:
    if now.tier is None:
        return curve_without_tier(sums, found, memory)
    held = now.gigabytes * 1e9 / asked_bytes_per_second
    return curve_with_tier(sums, _cache(scene, group), found, memory, held)


def _cache(scene: Scene, group: Sequence[TargetStatus]) -> Sums:
    """What LMCache's servers of the same service counted; no page says which server an engine asks."""
    targets = scene.plan.targets
    theirs = {targets[status.name].service for status in group if status.name in targets} | {None}
    servers = [
        status
        for status in scene.statuses
        if status.source == "lmcache"
        and status.health == "up"
        and (status.name not in targets or targets[status.name].service in theirs)
    ]
    return add_up(scene.increments(servers, REUSE_SECONDS))
