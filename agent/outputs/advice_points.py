"""Advice as points of the metric table: the replicas to have, how sure that is, and how earlier advice came out."""

from collections import Counter
from collections.abc import Iterator

from agent.model import Recommendation, ReplicaWish, Snapshot
from agent.outputs import metric_table as table
from agent.outputs.points import Point

LEAST_CONFIDENCE = 0.5  # facts: from here on "suggest"; below it aliases say what there is, for nobody gates on them


def advice_points(snapshot: Snapshot, *, with_aliases: bool) -> Iterator[Point]:
    """Groups with a promise first; then open advice, newest first, so that `presentable` keeps the newest."""
    for wish in snapshot.replicas:
        yield Point(table.CONFIDENCE, (wish.model, wish.role, "scale"), wish.confidence)
        yield Point(table.REPLICAS, (wish.model, wish.role, "value"), wish.value)
        yield Point(table.REPLICAS, (wish.model, wish.role, "low"), wish.low)
        yield Point(table.REPLICAS, (wish.model, wish.role, "high"), wish.high)
        if with_aliases:
            yield from _aliases(wish)
    still_open = [one for one in snapshot.recommendations if one.verdict is None]
    for advice in sorted(still_open, key=lambda one: one.at_seconds, reverse=True):
        yield Point(table.CONFIDENCE, (advice.model, advice.role, advice.action), advice.confidence)
        if advice.action == "scale":
            yield Point(table.REPLICAS, (advice.model, advice.role, "value"), advice.proposed)
            yield Point(table.REPLICAS, (advice.model, advice.role, "low"), advice.low)
            yield Point(table.REPLICAS, (advice.model, advice.role, "high"), advice.high)
    for labels, count in Counter(_labels(one) for one in snapshot.recommendations).items():
        yield Point(table.VERDICTS, labels, float(count))


def _labels(one: Recommendation) -> tuple[str, str, str, str]:
    return one.model, one.role, one.action, one.verdict or "open"


def _aliases(wish: ReplicaWish) -> Iterator[Point]:
    """What is not sure enough to be suggested leaves things as they are."""
    count = wish.value if wish.confidence >= LEAST_CONFIDENCE else wish.current
    name = wish.model if wish.role == "aggregated" else f"{wish.model}-{wish.role}"
    yield Point(table.WVA_DESIRED, (name, "", ""), count)
    yield Point(table.WVA_CURRENT, (name, "", ""), wish.current)
    yield Point(table.AIBRIX, (name,), count)
