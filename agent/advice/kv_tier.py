"""Rule: a KV tier behind the engines: whether to have one, of which kind and how big. And one that costs time: off.

What a tier saves is prompt tokens that are not computed; what it costs is its price, and the time to load what it has.
Of the tiers that the config says there could be, the cheapest that keeps every promise is the best.
"""

from collections.abc import Iterator

from agent.advice.kv_tier_words import tier_advice
from agent.advice.scene import Scene
from agent.advice.tier_choice import choose
from agent.advice.tier_facts import tier_facts
from agent.advice.tier_use import slow_tier, was_loaded
from agent.model import Recommendation


def kv_tier(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model and role. None where all is as it should be, and where pages and config do not tell."""
    for (model, role), group in scene.groups().items():
        has_tiers = bool(scene.plan.advice.kv_tiers)
        if role == "decode" or not (has_tiers or was_loaded(scene, group)) or (view := scene.view(group)) is None:
            continue
        facts = tier_facts(scene, model, group, view)
        if facts is None:
            yield from slow_tier(scene, model, role, group, view)
        elif (best := choose(facts)) is not None:
            yield tier_advice(scene, model, role, group, facts, best)
