"""How long KV lies in a cache, and after what time it is asked for again: what vLLM's --kv-cache-metrics tell."""

from collections import deque

from agent.simulator.telemetry import Telemetry

TOLD = "kv_block_lifetime_seconds"
KEPT_ACCESSES = 4  # vLLM 0.32, v1/core/kv_cache_metrics.py: a block's latest reuses


class BlockDiary:
    """Birth and reuses of every known block; they are told when it is evicted, as vLLM does.

    A gap is that between two reuses: the time from birth to the first one is in the lifetime alone.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._lives: dict[int, tuple[float, deque[float]]] = {}

    def born(self, block: int, now_seconds: float) -> None:
        self._lives[block] = now_seconds, deque(maxlen=KEPT_ACCESSES)

    def reused(self, block: int, now_seconds: float) -> None:
        self._lives[block][1].append(now_seconds)

    def evicted(self, block: int, now_seconds: float) -> None:
        birth, reuses = self._lives.pop(block)
        self._telemetry.observe(TOLD, now_seconds - birth)
        self._telemetry.observe("kv_block_idle_before_evict_seconds", now_seconds - (reuses[-1] if reuses else birth))
        for before, after in zip(reuses, list(reuses)[1:], strict=False):
            self._telemetry.observe("kv_block_reuse_gap_seconds", after - before)

    def forget(self, blocks: list[int]) -> None:
        """A reset of the prefix cache: vLLM drops what it knew of them, untold."""
        for block in blocks:
            self._lives.pop(block, None)
