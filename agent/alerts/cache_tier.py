"""Cache servers that are down, and the engines that ask one: which of them may be each other's cause."""

from collections.abc import Collection, Mapping, Sequence

from agent.model import TargetStatus
from agent.sli.count import TargetFacts
from agent.windows import Windows

CACHES = ("lmcache", "mooncake")
LOST_CLIENT_SECONDS = 900.0  # so long it is told: a store that was made smaller on purpose is no news after that
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


def lost_clients(name: str, windows: Windows, now_seconds: float) -> str:
    """How many clients a store has fewer than within the last minutes, and what they took with them; "" if none.

    No counter of failures moves when one dies: fewer clients and less room are the only sign.
    """
    found = [
        (increment.gauges.get(("store_clients", "")), increment.gauges.get(("store_capacity_bytes", "")))
        for increment in windows.between(now_seconds - LOST_CLIENT_SECONDS, now_seconds, [name])
    ]
    known = [(clients, capacity) for clients, capacity in found if clients is not None and capacity is not None]
    if not known or known[-1][0] >= (most := max(known))[0]:
        return ""
    (clients, capacity), (before, room) = known[-1], most
    return (
        f"{before - clients:.0f} of {before:.0f} clients are gone, and room for {room - capacity:,.0f} of "
        f"{room:,.0f} bytes with them; the engines go on serving, with fewer hits"
    )
