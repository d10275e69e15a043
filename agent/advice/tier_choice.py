"""The choice among KV tiers: the cheapest that keeps every promise, and only where it is clearly better than now."""

from agent.advice.tier_facts import TierFacts
from agent.advice.tier_options import NO_TIER, Outlook

CLEARLY = 0.02  # of what an engine and its tier cost, of the misses, or of the time to first token: less is noise
SLOWER_RATIO = 1.15  # without a promise of TTFT: a tier that makes first tokens later by so much is none


def choose(facts: TierFacts) -> Outlook | None:
    """What to have instead of what there is; None where that is best, or nothing tells what it does."""
    now = facts.current
    if now is None:
        return None
    options = [one for one in facts.outlooks if one is not now]
    if not facts.has_objectives:
        options = [one for one in options if not _is_slower(one, facts)]
    if facts.has_objectives and not now.keeps_slo:
        return _mend(now, options, facts)
    if now.dollars(facts.engine_dollars) is None:
        return _faster(now, [one for one in options if one.keeps_slo])
    return _cheaper(now, [one for one in options if one.keeps_slo], facts)


def _mend(now: Outlook, options: list[Outlook], facts: TierFacts) -> Outlook | None:
    """The cheapest that keeps the promises; else the one that misses least, where that is clearly less."""
    good = [one for one in options if one.keeps_slo]
    if good:
        return min(good, key=lambda one: (one.dollars(facts.engine_dollars) or 0.0, one.strain))
    best = min(options, key=lambda one: one.strain, default=now)
    return best if best.strain < (1 - CLEARLY) * now.strain else None


def _cheaper(now: Outlook, options: list[Outlook], facts: TierFacts) -> Outlook | None:
    """The cheapest, where it saves clearly, and something even at its pessimistic end."""
    here, price = now.dollars(facts.engine_dollars) or 0.0, facts.engine_dollars or 0.0
    margin = CLEARLY * (price + (now.tier_dollars or 0.0))
    saving = [
        (dollars, one)
        for one in options
        if (dollars := one.dollars(price)) is not None
        and dollars < here - margin
        and (one.dollars(price, pessimistic=True) or 0.0) < here
    ]
    return min(saving, key=lambda pair: pair[0])[1] if saving else None


def _faster(now: Outlook, options: list[Outlook]) -> Outlook | None:
    """Without prices: the one that brings first tokens clearly sooner; of those alike the smallest."""
    known = [(one.ttft_mean_seconds, one) for one in options if one.ttft_mean_seconds is not None]
    if now.ttft_mean_seconds is None or not known:
        return None
    least = min(seconds for seconds, _ in known)
    if least > (1 - CLEARLY) * now.ttft_mean_seconds:
        return None
    return min((one for seconds, one in known if seconds <= (1 + CLEARLY) * least), key=lambda o: o.setting.gigabytes)


def _is_slower(one: Outlook, facts: TierFacts) -> bool:
    none = next((other for other in facts.outlooks if other.setting == NO_TIER), None)
    if none is None or none.ttft_mean_seconds is None or one.ttft_mean_seconds is None:
        return False
    return one.ttft_mean_seconds > SLOWER_RATIO * none.ttft_mean_seconds
