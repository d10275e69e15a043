"""What routers, KV transfers and object stores did, as points of the metric table."""

from collections.abc import Iterator

from agent.outputs import metric_table as table
from agent.outputs.points import Point
from agent.signals.model import KvTransfer, ObjectStore, RouterWork, Signals

OUTCOMES = ("answered", "failed", "cancelled", "refused")
ROUTER_LATENCIES = ("ttft", "itl", "tpot", "e2e")


def neighbour_points(target: str, window: str, signals: Signals) -> Iterator[Point]:
    """Every window has the routers' counts; the other figures are of the last 5 minutes. Unknown gives no point."""
    if signals.router is not None:
        yield from _router_points(target, window, signals.router)
    if window == "5m" and signals.kv_transfer is not None:
        yield from _transfer_points(target, signals.kv_transfer)
    if window == "5m" and signals.object_store is not None:
        yield from _store_points(target, signals.object_store)


def _router_points(target: str, window: str, router: RouterWork) -> Iterator[Point]:
    for outcome in OUTCOMES:
        yield Point(table.ROUTER_REQUESTS, (target, window, outcome), getattr(router, outcome))
    for name in ROUTER_LATENCIES:
        latency = getattr(router, f"{name}_seconds")
        if latency is not None and latency.mean is not None:
            yield Point(table.MEAN, (target, f"router_{name}", window), latency.mean)


def _transfer_points(target: str, transfer: KvTransfer) -> Iterator[Point]:
    for part, latency in (("transfer", transfer.transfer_seconds), ("post", transfer.post_seconds)):
        if latency is not None and latency.mean is not None:
            yield Point(table.KV_TRANSFER, (target, part), latency.mean)


def _store_points(target: str, store: ObjectStore) -> Iterator[Point]:
    if store.object_hit_ratio is not None:
        yield Point(table.OBJECT_HITS, (target,), store.object_hit_ratio)
    if store.clients is not None:
        yield Point(table.STORE_CLIENTS, (target,), store.clients.last)
