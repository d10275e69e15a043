"""Cache servers that are down, and the engines that ask one: which of them may be each other's cause."""

from collections.abc import Collection, Mapping, Sequence

from agent.model import TargetStatus
from agent.sli.count import TargetFacts
from agent.windows import Windows

CACHES = ("lmcache",)
ASKED = ("external_cache_queried_tokens_total", "")


def caches_down(
    engines: Collection[str], statuses: Sequence[TargetStatus], facts: Mapping[str, TargetFacts], windows: Windows
) -> list[TargetStatus]:
    """The cache servers that are down, where one of these engines asks a cache; none of another service than theirs.

    No page says which server an engine asks, so a cache that is down may be one that they do not use.
    """
    if not any(key.target in engines and raw.counters.get(ASKED, 0.0) > 0 for key, raw in windows.raw.items()):
        return []
    theirs = {facts[name].service for name in engines if name in facts}
    down = [status for status in statuses if status.source in CACHES and status.health == "down"]
    return [
        cache
        for cache in down
        if (its := facts[cache.name].service if cache.name in facts else None) is None or {its, None} & theirs
    ]
