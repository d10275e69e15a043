"""A KV cache beside the engines (CPU memory, or a remote store): what it holds, how fast it gives it back."""

from collections import OrderedDict
from dataclasses import dataclass, field

from agent.simulator.ask import Sequence
from agent.simulator.chunk_diary import ChunkDiary
from agent.simulator.histogram import Histogram
from agent.simulator.kv_source import Load
from agent.simulator.telemetry import Telemetry

DOWN_LOOKUP_SECONDS = (
    4.7  # facts/real-systems.md: LMCache killed, vLLM's lookups took +47 s over 10, /health stayed 200
)
LOOKUP_SECONDS = 0.02  # page vllm_0.32_with_lmcache: 80 lookups took 1.64 s in all


@dataclass(slots=True)
class CacheTier:
    """Least recently used blocks under their hashes, `capacity_bytes` in all; one link, on which loads queue.

    Bandwidths: facts/recommend.md 7 (DRAM 20 GB/s, P/D link 25 GB/s, object storage 1 GB/s + 30 ms). `is_down` is a
    tier that no longer answers: every lookup waits for its timeout and finds nothing.
    """

    capacity_bytes: float
    bytes_per_second: float = 20e9
    latency_seconds: float = 0.0
    kv_bytes_per_token: int = 131_072
    block_tokens: int = 16
    chunk_tokens: int = 256
    name: str = "cpu"
    is_down: bool = False
    slowdown: float = 1.0
    requested_tokens: int = 0
    hit_tokens: int = 0
    lookups: int = 0
    written_blocks: int = 0
    read_blocks: int = 0
    evicted_blocks: int = 0
    diary: ChunkDiary = field(default_factory=ChunkDiary)
    load_seconds: Histogram = field(default_factory=lambda: Histogram((0.01, 0.1, 1.0, 10.0)))
    _blocks: OrderedDict[int, None] = field(default_factory=OrderedDict)
    _free_at_seconds: float = 0.0

    @property
    def used_bytes(self) -> int:
        return len(self._blocks) * self.block_tokens * self.kv_bytes_per_token

    @property
    def usage_ratio(self) -> float:
        return self.used_bytes / self.capacity_bytes if self.capacity_bytes else 0.0

    def find(self, sequence: Sequence, local_tokens: int) -> int:
        """Tokens beyond the local ones that lie here, in whole chunks; counted as a lookup."""
        hashes = sequence.ask.block_hashes
        at = local_tokens // self.block_tokens
        while at < len(hashes) and hashes[at] in self._blocks:
            self._blocks.move_to_end(hashes[at])
            at += 1
        found = at * self.block_tokens // self.chunk_tokens * self.chunk_tokens
        whole = sequence.ask.prompt_tokens // self.chunk_tokens * self.chunk_tokens
        hit = max(0, found - local_tokens)
        self.lookups += 1
        self.requested_tokens += whole
        self.hit_tokens += hit
        return hit

    def busy_seconds(self, tokens: int) -> float:
        """How long the link has to do with so many tokens."""
        return tokens * self.kv_bytes_per_token / self.bytes_per_second * self.slowdown

    def read(self, tokens: int, now_seconds: float) -> float:
        """When so many tokens are here, behind all loads before them."""
        begin = max(now_seconds, self._free_at_seconds)
        busy = self.busy_seconds(tokens)
        self._free_at_seconds = begin + busy
        self.read_blocks += tokens // self.block_tokens
        ready = begin + busy + self.latency_seconds * self.slowdown
        self.load_seconds.observe(ready - now_seconds)
        return ready

    def keep(self, sequence: Sequence, now_seconds: float = 0.0) -> None:
        """Write the prompt's shareable blocks, and forget the least recently used ones beyond the capacity.

        A prompt touches its blocks once, here: what was found of it before is not counted again.
        """
        for block in sequence.ask.block_hashes:
            if block in self._blocks:
                self._blocks.move_to_end(block)
                self.diary.touched(block, now_seconds)
            else:
                self._blocks[block] = None
                self.written_blocks += 1
                self.diary.written(block, now_seconds)
        while self._blocks and self.used_bytes > self.capacity_bytes:
            self.diary.evicted(self._blocks.popitem(last=False)[0], now_seconds)
            self.evicted_blocks += 1


@dataclass(slots=True)
class TierConnector:
    """One engine's connector to a tier, its own or shared: looks up, loads beside the running step, stores."""

    tier: CacheTier
    telemetry: Telemetry

    def load(self, sequence: Sequence, local_tokens: int, now_seconds: float) -> Load | None:
        if self.tier.is_down:
            self.telemetry.observe("lmcache_mp_lookup_duration_seconds", DOWN_LOOKUP_SECONDS)
            return Load(0, now_seconds + DOWN_LOOKUP_SECONDS)
        self.telemetry.observe("lmcache_mp_lookup_duration_seconds", LOOKUP_SECONDS)
        tokens = min(self.tier.find(sequence, local_tokens), sequence.ask.prompt_tokens - 1 - local_tokens)
        if tokens <= 0:
            return None
        self.telemetry.add("kv_offload_load_bytes", tokens * self.tier.kv_bytes_per_token)
        self.telemetry.add("kv_offload_load_time", self.tier.busy_seconds(tokens))
        return Load(tokens, self.tier.read(tokens, now_seconds) + LOOKUP_SECONDS)

    def store(self, sequence: Sequence, now_seconds: float) -> None:
        """The prompt is kept. Storing is free here."""
        if not self.tier.is_down:
            self.tier.keep(sequence, now_seconds)
