"""Who runs in the next step: vLLM V1's schedule of one token budget over decodes, chunked prefills and the queue."""

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field

from agent.simulator.ask import Sequence
from agent.simulator.blocks import BlockPool
from agent.simulator.kv_source import KvSource, Load
from agent.simulator.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: who decodes, and whose prompt goes on by how many tokens.

    `is_open` says that an arrival could join the next step; for `post_seconds` the step stands still.
    """

    decodes: list[Sequence]
    chunks: list[tuple[Sequence, int]]
    is_open: bool
    post_seconds: float = 0.0


@dataclass(slots=True)
class Scheduler:
    """The queues of one engine. First come, first served, or by (priority, arrival) where `by_priority` is set."""

    pool: BlockPool
    telemetry: Telemetry
    max_num_batched_tokens: int
    max_num_seqs: int
    by_priority: bool = False
    kv_source: KvSource | None = None
    draft_tokens: int = 0
    waiting: list[Sequence] = field(default_factory=list)
    running: list[Sequence] = field(default_factory=list)
    loading: list[tuple[float, Sequence]] = field(default_factory=list)

    def enqueue(self, sequence: Sequence) -> None:
        """Put a request at its place in the queue."""
        sequence.state = "waiting"
        if self.by_priority:
            insort(self.waiting, sequence, key=_rank)
        else:
            self.waiting.append(sequence)

    def collect_loaded(self, now_seconds: float) -> bool:
        """Put those whose KV has come in at the head of the queue; True when there were any."""
        loaded = [entry for entry in self.loading if entry[0] <= now_seconds]
        for entry in loaded:
            self.loading.remove(entry)
            entry[1].state = "waiting"
            self.waiting.insert(0, entry[1])
        return bool(loaded)

    def remove(self, sequence: Sequence, *, keep_blocks: bool = False) -> None:
        """Take a request out, wherever it is, and free its blocks unless someone is still to pull them."""
        if sequence.state == "running":
            self.running = [other for other in self.running if other is not sequence]
        elif sequence.state == "waiting":
            self.waiting = [other for other in self.waiting if other is not sequence]
        else:
            self.loading = [entry for entry in self.loading if entry[1] is not sequence]
        if not keep_blocks:
            self.pool.release(sequence)

    def everyone(self) -> Iterator[Sequence]:
        yield from self.running
        yield from (sequence for _, sequence in self.loading)
        yield from self.waiting

    def plan(self, now_seconds: float) -> Plan:
        """The next step; it is empty when nothing can run."""
        self.pool.now_seconds = now_seconds
        decodes, chunks, preempted = self._continue_running()
        budget = self.max_num_batched_tokens - len(decodes) - sum(tokens for _, tokens in chunks)
        post_seconds = 0.0
        while not preempted and budget > 0 and self.waiting and len(self.running) < self.max_num_seqs:
            tokens, posted = self._admit(self.waiting[0], budget, now_seconds)
            post_seconds += posted
            if tokens is None:
                break
            if tokens:
                chunks.append((self.running[-1], tokens))
                budget -= tokens
        is_open = self.by_priority or (not self.waiting and len(self.running) < self.max_num_seqs)
        return Plan(decodes, chunks, is_open, post_seconds)

    def _continue_running(self) -> tuple[list[Sequence], list[tuple[Sequence, int]], bool]:
        """Who of those running computes what, in their order; the youngest give way where blocks run out."""
        decodes: list[Sequence] = []
        chunks: list[tuple[Sequence, int]] = []
        budget, preempted = self.max_num_batched_tokens, False
        block_tokens, ahead = self.pool.block_tokens, self.draft_tokens
        for sequence in list(self.running):
            if budget <= 0:
                break
            if not sequence.is_running:
                continue
            missing = sequence.ask.prompt_tokens + sequence.generated_tokens - sequence.resident_tokens
            is_decode = missing == 1 and sequence.generated_tokens > 0
            tokens = min(missing, budget)
            needed = sequence.resident_tokens + tokens + (ahead if is_decode else 0)
            if needed > sequence.held_blocks * block_tokens:
                gone: Sequence | None = None
                while gone is not sequence and not self.pool.grow(sequence, needed):
                    preempted = True
                    gone, tokens_back = self._give_way(decodes, chunks)
                    budget += tokens_back
                if gone is sequence:
                    continue
            budget -= tokens
            if is_decode:
                decodes.append(sequence)
            else:
                chunks.append((sequence, tokens))
        return decodes, chunks, preempted

    def _give_way(self, decodes: list[Sequence], chunks: list[tuple[Sequence, int]]) -> tuple[Sequence, int]:
        """Preempt the youngest (or least urgent) sequence; returns it, and the budget that its plan gives back."""
        victim = max(self.running, key=_rank) if self.by_priority else self.running[-1]
        self._preempt(victim)
        if victim in decodes:
            decodes.remove(victim)
            return victim, 1
        for entry in chunks:
            if entry[0] is victim:
                chunks.remove(entry)
                return victim, entry[1]
        return victim, 0

    def _preempt(self, victim: Sequence) -> None:
        self.running.remove(victim)
        self.pool.release(victim)
        victim.resident_tokens = 0
        victim.preemptions += 1
        victim.state = "waiting"
        self.waiting.insert(0, victim)
        self.telemetry.add("num_preemptions")

    def _admit(self, sequence: Sequence, budget: int, now_seconds: float) -> tuple[int | None, float]:
        """Tokens of its first chunk (None: no room, 0: its KV comes in), and seconds the step stands still."""
        if sequence.held_blocks == 0:
            found = self.pool.hit_blocks(sequence.ask.block_hashes)
            hits = min(found, self._reusable_blocks(sequence))
            if sequence.scheduled_at_seconds is None:
                sequence.found_blocks = found
            local_tokens = hits * self.pool.block_tokens
            source = self.kv_source
            if source is not None and not sequence.asked_kv_source:
                if self.pool.free_blocks < self.pool.blocks_for(sequence.ask.prompt_tokens):
                    return None, 0.0
                sequence.asked_kv_source = True
                load = source.load(sequence, local_tokens, now_seconds)
                if load is not None:
                    self.pool.reuse(sequence, hits)
                    self._start_load(sequence, local_tokens, load)
                    return 0, load.post_seconds
            self.pool.reuse(sequence, hits)
            sequence.resident_tokens = local_tokens
            if sequence.scheduled_at_seconds is None:
                sequence.cached_tokens = local_tokens
        tokens = min(sequence.known_tokens - sequence.resident_tokens, budget)
        if not self.pool.grow(sequence, sequence.resident_tokens + tokens):
            if sequence.external_tokens == 0 or sequence.preemptions:
                self.pool.release(sequence)
                sequence.resident_tokens = 0
            return None, 0.0
        self.waiting.pop(0)
        self.running.append(sequence)
        sequence.state = "running"
        if sequence.scheduled_at_seconds is None:
            sequence.scheduled_at_seconds = now_seconds
            self.telemetry.admitted(sequence, asked_external=self.kv_source is not None)
        return tokens, 0.0

    def _start_load(self, sequence: Sequence, local_tokens: int, load: Load) -> None:
        """Hold room for what is coming; there was room for the whole prompt."""
        self.pool.grow(sequence, local_tokens + load.tokens)
        sequence.cached_tokens = local_tokens
        sequence.external_tokens = load.tokens
        sequence.resident_tokens = min(local_tokens + load.tokens, sequence.known_tokens - 1)
        sequence.state = "loading"
        self.waiting.pop(0)
        self.loading.append((load.ready_at_seconds, sequence))

    def _reusable_blocks(self, sequence: Sequence) -> int:
        """At least one token must be computed to have an answer, so a full hit gives its last block back."""
        return (sequence.known_tokens - 1) // self.pool.block_tokens


def _rank(sequence: Sequence) -> tuple[int, float]:
    return sequence.ask.priority, sequence.arrived_at_seconds
