"""What the KV tier rule says: from a choice to a recommendation."""

from collections.abc import Sequence
from math import isfinite

from agent.advice.scene import LEARN_SECONDS, LOAD_SECONDS, Scene
from agent.advice.tier_choice import CLEARLY
from agent.advice.tier_facts import REUSE_SECONDS, TierFacts
from agent.advice.tier_options import Outlook, Setting
from agent.model import Evidence, Recommendation, TargetStatus

VERIFY_SECONDS = 1_800.0  # a cache that began empty has to fill first
AGAIN = {"multi_turn": " (conversations that go on)", "shared_prefix": " (beginnings that many share)"}
COUNTED, ESTIMATED = 0.8, 0.5  # confidence: all that it finds was counted, or a part is the law's
CLOSE, HANGS = 4.0, 0.6  # misses within so many times what is allowed, and what is left of the confidence then


def tier_advice(
    scene: Scene, model: str, role: str, group: Sequence[TargetStatus], facts: TierFacts, best: Outlook
) -> Recommendation:
    """The recommendation to have this instead of what there is."""
    now = facts.current
    if now is None:
        raise ValueError(facts.now)  # nothing was chosen against it
    verb, reason = _action(now.setting, best.setting, facts)
    price = None if facts.engine_dollars is None else facts.engine_dollars * len(group)
    alike = _alike(facts, best)
    return Recommendation(
        id=f"kv-tier-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="kv_tier",
        current=now.setting.gigabytes,
        proposed=best.setting.gigabytes,
        low=min(alike),
        high=max(alike),
        reason_code=reason,
        binding="ttft" if facts.has_objectives and not now.keeps_slo else "kv",
        summary=_summary(model, role, verb, facts, now, best),
        confidence=_confidence(facts, now, best),
        meets_slo=_meets(best, facts),
        evidence=tuple(_evidence(facts, now)),
        alternatives=tuple(_alternative(one, facts, price, len(group)) for one in facts.outlooks),
        do_nothing={
            "ttft_p95_seconds": now.ttft_p95_seconds,
            "summary": _nothing(facts, now, best, len(group)),
            "meets_slo": _meets(now, facts),
        },
        side_effects=tuple(_side_effects(now, best)),
        steps=tuple(_steps(now.setting, best.setting)),
        rollback=f"go back to {now.setting.name}; a cache that is started again begins empty",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )


def _alike(facts: TierFacts, best: Outlook) -> list[float]:
    """Sizes of the same tier that are as good: they keep the promise as this one does, and cost about as much."""
    here, margin = best.dollars(facts.engine_dollars), CLEARLY * (facts.engine_dollars or 0.0)
    return [best.setting.gigabytes] + [
        one.setting.gigabytes
        for one in facts.outlooks
        if one.setting.place == best.setting.place
        and one.keeps_slo == best.keeps_slo
        and here is not None
        and (dollars := one.dollars(facts.engine_dollars)) is not None
        and dollars <= here + margin
    ]


def _action(now: Setting, best: Setting, facts: TierFacts) -> tuple[str, str]:
    """What to do, and why, in a closed word."""
    if now.tier is None:
        return f"Give every replica a {best.name}".replace(" a replica", ""), "tier_pays"
    if best.tier is None:
        slow = facts.use is not None and facts.use.loss_ratio > 1
        return f"Turn the {now.name} off", "tier_slower_than_computing" if slow else "tier_does_not_pay"
    if best.place != now.place:
        return f"Move from the {now.name} to a {best.name}", "another_tier_pays"
    if best.gigabytes > now.gigabytes:
        return f"Make the {now.name} bigger: {best.gigabytes:g} GB", "tier_too_small"
    return f"Make the {now.name} smaller: {best.gigabytes:g} GB", "tier_too_large"


def _summary(model: str, role: str, verb: str, facts: TierFacts, now: Outlook, best: Outlook) -> str:
    saved = _saved(facts, now, best)
    money = "what it saves is not known without prices" if saved is None else _money(saved)
    again = AGAIN.get(facts.reuse_kind or "", "")
    return (
        f"{verb}, for {model} ({role}). Of the prompt tokens {100 * best.found_ratio:.0f} % are then found instead of "
        f"{100 * now.found_ratio:.0f} %{again}; TTFT p95 goes from {_ms(now.ttft_p95_seconds)} to "
        f"{_ms(best.ttft_p95_seconds)}, and of a replica's hour {money}."
    )


def _money(saved: float) -> str:
    word = "is saved" if saved >= 0 else "more is paid"
    return f"${abs(saved):.2f} {word}, GPU time against the price of the tier"


def _saved(facts: TierFacts, now: Outlook, best: Outlook) -> float | None:
    """Dollars of one replica's hour."""
    before, after = now.dollars(facts.engine_dollars), best.dollars(facts.engine_dollars)
    return None if before is None or after is None else before - after


def _nothing(facts: TierFacts, now: Outlook, best: Outlook, replicas: int) -> str:
    saved = _saved(facts, now, best)
    if facts.has_objectives and not now.keeps_slo:
        return f"TTFT stays late: {now.strain:.1f} times the misses that are promised"
    if saved is None:
        return "first tokens go on coming later than they could"
    return f"${replicas * saved:.2f} an hour go on being spent for nothing"


def _confidence(facts: TierFacts, now: Outlook, best: Outlook) -> float:
    """Less where the tier finds what was never counted, and where another would have been best, had first tokens come
    a little sooner or later than predicted.
    """
    counted = facts.reuse.curve.seen[-1][1]
    sure = COUNTED if best.found_ratio <= max(counted, now.found_ratio) + 1e-9 else ESTIMATED
    here = best.dollars(facts.engine_dollars)
    cheaper = [
        one.strain
        for one in facts.outlooks
        if here is not None and (dollars := one.dollars(facts.engine_dollars)) is not None and dollars < here
    ]
    hangs = best.strain > 1 / CLOSE or any(1 < strain < CLOSE for strain in cheaper)
    return round(HANGS * sure if facts.has_objectives and hangs else sure, 2)


def _meets(one: Outlook, facts: TierFacts) -> bool | None:
    """True only if the pessimistic end keeps every promise, False if the value does not."""
    if not facts.has_objectives:
        return None
    return True if one.surely_keeps_slo else None if one.keeps_slo else False


def _evidence(facts: TierFacts, now: Outlook) -> list[Evidence]:
    reuse, curve = facts.reuse, facts.reuse.curve
    working = curve.working_set_seconds()
    tier = now.setting.tier
    speed = None if tier is None else tier.bytes_per_second
    ttft = facts.ttft_seconds
    share = None
    if speed and ttft:
        share = min(1.0, facts.found.tier_ratio * facts.input_tokens * reuse.kv_bytes_per_token / speed / ttft)
    return [
        Evidence("prefix_cache_hit_ratio", REUSE_SECONDS, facts.found.engine_ratio),
        Evidence("tier_hit_ratio", REUSE_SECONDS, facts.found.tier_ratio),
        Evidence("engine_cache_remembers_seconds", REUSE_SECONDS, reuse.engine_seconds),
        Evidence("caches_remember_seconds", REUSE_SECONDS, _finite(curve.remembered_seconds)),
        Evidence("reuse_ceiling_ratio", REUSE_SECONDS, curve.ceiling),
        Evidence("working_set_bytes", REUSE_SECONDS, None if working is None else working * reuse.bytes_per_second),
        Evidence("tier_bytes_per_replica", 0.0, now.setting.gigabytes * 1e9),
        Evidence("tier_bytes_per_second", LOAD_SECONDS if facts.use else 0.0, speed),
        Evidence(
            "break_even_bytes_per_second",
            LEARN_SECONDS,
            reuse.kv_bytes_per_token / facts.prefill_seconds_per_token,
        ),
        Evidence("kv_bytes_per_token", 0.0, reuse.kv_bytes_per_token),
        Evidence("kv_load_share_of_ttft_ratio", LOAD_SECONDS, share),
        Evidence("prefill_seconds_per_token", LEARN_SECONDS, facts.prefill_seconds_per_token),
    ]


def _alternative(one: Outlook, facts: TierFacts, price: float | None, replicas: int) -> dict[str, object]:
    """Dollars are those of all replicas: their hour, less the GPU time that this saves against now, and the tier."""
    now, dollars = facts.current, one.dollars(facts.engine_dollars)
    before = None if now is None else now.dollars(facts.engine_dollars)
    return {
        "setting": one.setting.name,
        "ttft_p95_seconds": one.ttft_p95_seconds,
        "itl_p99_seconds": one.itl_p99_seconds,
        "goodput_ratio": None,
        "found_ratio": one.found_ratio,
        "dollars_per_hour": None
        if price is None or dollars is None or before is None or now is None
        else price + replicas * (dollars - before + (now.tier_dollars or 0.0)),
        "meets_slo": _meets(one, facts),
    }


def _side_effects(now: Outlook, best: Outlook) -> list[str]:
    said = []
    if best.setting.tier is not None:
        said.append("a tier begins empty: what it finds grows until it has been full once")
        if best.found_ratio > now.found_ratio:
            said.append("loads share the link with what else uses it; measured with the load of now")
    if best.found_ratio < now.found_ratio:
        said.append("the engines compute more of the prompts: prefill work rises, and gaps of others with it")
    said.append("GPU time that is saved is money once an engine fewer is needed: look at the scaling advice then")
    return said


def _steps(now: Setting, best: Setting) -> list[str]:
    first = (
        f"start one replica with a {best.name}"
        if best.tier is not None
        else f"start one replica without the {now.name}"
    )
    return [
        first,
        "wait until its hit rate no longer rises, then compare its TTFT and prefill work with the others'",
        "then the other replicas, one after the other",
    ]


def _finite(seconds: float) -> float | None:
    return seconds if isfinite(seconds) else None


def _ms(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1e3:.0f} ms"
