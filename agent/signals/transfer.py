"""KV transfers of a window: what decode instances pulled from prefill instances over NIXL, and how long it took."""

from agent.signals.model import KvTransfer
from agent.signals.sums import Sums
from agent.stats.buckets import latency


def kv_transfer(sums: Sums) -> KvTransfer | None:
    """None where no page tells of NIXL."""
    transfers = sums.histogram("nixl_transfer_seconds")
    failed, expired, late = (
        sums.counter(f"nixl_{name}_total") for name in ("failed_transfers", "kv_expired_requests", "late_notifications")
    )
    if transfers is None and failed is None and expired is None:
        return None
    size, pieces = sums.histogram("nixl_transfer_bytes"), sums.histogram("nixl_transfer_descriptors")
    return KvTransfer(
        transfer_seconds=latency(transfers),
        post_seconds=latency(sums.histogram("nixl_post_seconds")),
        transfers=None if transfers is None else transfers.count,
        transferred_bytes=None if size is None else size.total,
        descriptors=None if pieces is None else pieces.total,
        failed=failed,
        expired_requests=expired,
        late_notifications=late,
    )
