"""Every KV tier that a replica could have, played through: what it finds, what first tokens wait, what it costs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agent.advice.capacity import EngineCapacity, Objective
from agent.advice.rehearsal import Load, Rehearsed, rehearse
from agent.advice.reuse import ReuseCurve
from agent.advice.topologies import strain
from agent.plan import KvTier
from agent.stats.weighted import weighted_mean, weighted_percentiles

BUSY_RATIO = 0.75  # facts/recommend.md 5c: engines are bought so that prefill keeps them about so busy
CORRECTION = (0.5, 3.0)  # facts/recommend.md 5a: seen over predicted, beyond which a model is not to be trusted
HAIR = 1e-3
BELIEVED = 0.5  # of what is only estimated, at the pessimistic end
FOUND_DEPTH = 0.9  # of a prompt that came before: what is new at its end is computed


@dataclass(frozen=True, slots=True)
class Setting:
    """A tier with its size for one replica, or none."""

    tier: KvTier | None = None
    gigabytes: float = 0.0

    @property
    def place(self) -> str:
        return "" if self.tier is None else self.tier.name

    @property
    def name(self) -> str:
        return "no tier" if self.tier is None else f"{self.tier.name} tier of {self.gigabytes:g} GB a replica"


NO_TIER = Setting()


@dataclass(frozen=True, slots=True)
class Reuse:
    """What is known of reuse. `bytes_per_second` is what the prompts ask of a tier of one replica, reuse or not: with
    the seconds that a cache holds it gives its size. `engine_ratio` is found without any tier.
    """

    curve: ReuseCurve
    engine_ratio: float
    engine_seconds: float
    bytes_per_second: float
    kv_bytes_per_token: float


@dataclass(frozen=True, slots=True)
class Seen:
    """First tokens as they were: their mean, and of objectives the least and the largest share that missed."""

    ttft_seconds: float | None
    missed: Sequence[tuple[Objective, float, float]] = ()

    def correction(self, predicted: Rehearsed) -> float:
        """By how much times to first token were longer than predicted of the same setting: by the mean, as far as it
        is then predicted to keep what was surely kept, and to break what was surely broken.
        """
        mean = weighted_mean(predicted.ttfts)
        factor = self.ttft_seconds / mean if self.ttft_seconds and mean else 1.0
        for objective, least, most in self.missed:
            at = weighted_percentiles(predicted.ttfts, [objective.objective_ratio])[0]
            allowed = 1 - objective.objective_ratio
            if at and most <= allowed:
                factor = min(factor, objective.threshold_seconds / at)
            elif at and least > allowed:
                factor = max(factor, (1 + HAIR) * objective.threshold_seconds / at)
        return min(max(factor, CORRECTION[0]), CORRECTION[1])


@dataclass(frozen=True, slots=True)
class Outlook:
    """What one setting does. `strain` is the worst objective's misses over what it allows, at the value and at the
    pessimistic end; `gpu_ratio` the part of an engine's time that computes prompts, at both, too; dollars are of one
    replica's hour, those of its engine apart.
    """

    setting: Setting
    found_ratio: float
    from_tier_ratio: float
    ttft_mean_seconds: float | None
    ttft_p95_seconds: float | None
    itl_p99_seconds: float | None
    strain: float
    pessimistic_strain: float
    gpu_ratio: float
    pessimistic_gpu_ratio: float
    tier_dollars: float | None

    @property
    def keeps_slo(self) -> bool:
        return self.strain <= 1.0

    @property
    def surely_keeps_slo(self) -> bool:
        return self.pessimistic_strain <= 1.0

    def dollars(self, engine_dollars: float | None, *, pessimistic: bool = False) -> float | None:
        """An hour of prompt computing and of the tier, of one replica; None where a price is not known."""
        if engine_dollars is None or self.tier_dollars is None:
            return None
        busy = self.pessimistic_gpu_ratio if pessimistic else self.gpu_ratio
        return engine_dollars * busy / BUSY_RATIO + self.tier_dollars


def settings(tiers: Sequence[KvTier]) -> Iterator[Setting]:
    """None, and every tier at every size of it."""
    yield NO_TIER
    for tier in tiers:
        for size in sorted({*tier.gigabytes, *([tier.in_use_gigabytes] if tier.in_use_gigabytes else [])}):
            yield Setting(tier, size)


def setting_now(tiers: Sequence[KvTier]) -> Setting:
    """What is in use, as the config says."""
    return next((Setting(tier, tier.in_use_gigabytes) for tier in tiers if tier.in_use_gigabytes), NO_TIER)


def outlooks(
    engine: EngineCapacity,
    load: Load,
    tiers: Sequence[KvTier],
    reuse: Reuse,
    objectives: Sequence[Objective],
    seen: Seen,
) -> list[Outlook]:
    """All settings of which something can be told, none first. `load.rate` is that of one replica."""
    now = setting_now(tiers)
    found_now, _ = _found(now, now, reuse) or (reuse.engine_ratio, 0.0)
    factor = seen.correction(_rehearsed(engine, load, now, reuse, found_now))
    found = []
    for setting in settings(tiers):
        ratios = _found(setting, now, reuse)
        if ratios is not None:
            found.append(_outlook(engine, load, setting, reuse, objectives, ratios, factor))
    return found


def _found(setting: Setting, now: Setting, reuse: Reuse) -> tuple[float, float] | None:
    """Found part of the prompt tokens, and of that what is counted rather than estimated; None where nothing tells."""
    curve, seen = reuse.curve, reuse.curve.seen[-1][1]
    if setting.tier is None:
        return reuse.engine_ratio, reuse.engine_ratio
    if setting == now and (counted := curve.found_ratio(curve.remembered_seconds)) is not None:
        return counted, counted
    held = curve.seconds_of(setting.gigabytes * 1e9 / reuse.bytes_per_second)
    found = curve.found_ratio(max(reuse.engine_seconds, held))
    return None if found is None else (found, min(found, seen))


def _outlook(
    engine: EngineCapacity,
    load: Load,
    setting: Setting,
    reuse: Reuse,
    objectives: Sequence[Objective],
    ratios: tuple[float, float],
    factor: float,
) -> Outlook:
    found, counted = ratios
    error = engine.error_ratio(1.0, load.input_tokens)
    low = counted + BELIEVED * (found - counted)
    best = _corrected(_rehearsed(engine, load, setting, reuse, found), factor)
    slow = replace(engine, steps=engine.steps.scaled(1 + error))
    worst = _corrected(_rehearsed(slow, load, setting, reuse, low), factor)
    price = 0.0 if setting.tier is None else setting.tier.gigabyte_hour_dollars
    whole = (load.rate or 0.0) * load.input_tokens * engine.steps.prefill_seconds_per_token
    return Outlook(
        setting,
        found,
        max(0.0, found - reuse.engine_ratio) if setting.tier else 0.0,
        weighted_mean(best.ttfts),
        weighted_percentiles(best.ttfts, [0.95])[0],
        weighted_percentiles(best.gaps, [0.99])[0],
        strain(best, objectives),
        strain(worst, objectives),
        whole * (1 - found),
        whole * (1 - low),
        None if price is None else price * setting.gigabytes,
    )


def _rehearsed(engine: EngineCapacity, load: Load, setting: Setting, reuse: Reuse, found: float) -> Rehearsed:
    own = replace(load, hit_ratio=min(found, 0.99), hits_are_whole=True, hit_depth_ratio=FOUND_DEPTH)
    if setting.tier is not None and found > 0:
        own = replace(
            own,
            fetch_ratio=max(0.0, found - reuse.engine_ratio) / found,
            fetch_seconds_per_token=reuse.kv_bytes_per_token / setting.tier.bytes_per_second,
            fetch_latency_seconds=setting.tier.latency_seconds,
        )
    return rehearse(engine.steps, engine.limits, own, engine.front_end_seconds)


def _corrected(run: Rehearsed, factor: float) -> Rehearsed:
    return replace(run, ttfts=[(seconds * factor, times) for seconds, times in run.ttfts])
