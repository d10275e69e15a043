"""The KV cache of one engine: blocks, prefix reuse by block hash, and eviction of the least recently used."""

from collections import OrderedDict
from collections.abc import Iterable

from agent.simulator.ask import Sequence
from agent.simulator.residency import BlockDiary


class BlockPool:
    """Blocks are free, or held by sequences; a free block may still hold a known prefix until it is taken.

    As in vLLM V1: freed blocks go to the tail of one queue, the tail of a prompt before its head, and new blocks are
    taken from the front, which forgets what they held. Blocks that no one else could ask for lie in that queue as one
    entry with a count, so a private prompt costs one operation instead of hundreds. A prefix found under two sequences
    at once is kept once; vLLM keeps a duplicate, which here is a private block of the second. `now_seconds` is for the
    diary of known blocks, where one is kept.
    """

    def __init__(self, total_blocks: int, block_tokens: int, diary: BlockDiary | None = None) -> None:
        self.now_seconds = 0.0
        self._diary = diary
        self.total_blocks = total_blocks
        self.block_tokens = block_tokens
        self.free_blocks = total_blocks
        self.leaked_blocks = 0
        self.evicted_blocks = 0
        self._holders: dict[int, int] = {}
        self._private_entries = 0
        self._queue: OrderedDict[tuple[str, int], int] = OrderedDict({("private", 0): total_blocks})

    @property
    def usage_ratio(self) -> float:
        """Blocks that are held, 0..1. Free blocks that still hold a prefix count as free, as in vLLM."""
        return 1.0 - self.free_blocks / self.total_blocks if self.total_blocks else 0.0

    def hit_blocks(self, hashes: Iterable[int]) -> int:
        """How many leading blocks are here, held or free."""
        hits = 0
        for block in hashes:
            if block not in self._holders:
                break
            hits += 1
        return hits

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def reuse(self, sequence: Sequence, hits: int) -> None:
        """Give the sequence the first `hits` blocks of its prompt that are already here."""
        for block in sequence.ask.block_hashes[:hits]:
            if self._holders[block] == 0:
                del self._queue["shared", block]
                self.free_blocks -= 1
            self._holders[block] += 1
            sequence.shared_hashes.append(block)
            if self._diary is not None:
                self._diary.reused(block, self.now_seconds)
        sequence.held_blocks += hits

    def grow(self, sequence: Sequence, tokens: int) -> bool:
        """Hold enough blocks for so many tokens of the sequence; False, and nothing changes, if there are too few."""
        need = self.blocks_for(tokens) - sequence.held_blocks
        if need <= 0:
            return True
        if need > self.free_blocks:
            return False
        self._take(need)
        ask = sequence.ask
        if ask.block_hashes or ask.output_hashes:
            self._name(sequence, sequence.held_blocks, sequence.held_blocks + need)
        sequence.held_blocks += need
        return True

    def release(self, sequence: Sequence) -> None:
        """Free all blocks of the sequence; its known prefix stays findable until the blocks are taken."""
        private = sequence.held_blocks - len(sequence.shared_hashes)
        if private:
            self._enqueue_private(private)
            self.free_blocks += private
        for block in reversed(sequence.shared_hashes):
            self._holders[block] -= 1
            if self._holders[block] == 0:
                self._queue["shared", block] = 1
                self.free_blocks += 1
        sequence.shared_hashes.clear()
        sequence.held_blocks = 0

    def leak(self, blocks: int) -> None:
        """Lose so many free blocks for good: a fault."""
        lost = min(blocks, self.free_blocks)
        self._take(lost)
        self.leaked_blocks += lost

    def forget(self) -> None:
        """Drop every known prefix that no sequence holds (a reset of the prefix cache)."""
        forgotten = [key[1] for key in self._queue if key[0] == "shared"]
        for block in forgotten:
            del self._holders[block]
        if self._diary is not None:
            self._diary.forget(forgotten)
        self._queue.clear()
        if self.free_blocks:
            self._enqueue_private(self.free_blocks)

    def _enqueue_private(self, blocks: int) -> None:
        self._private_entries += 1
        self._queue["private", self._private_entries] = blocks

    def _name(self, sequence: Sequence, start: int, stop: int) -> None:
        ask = sequence.ask
        for index in range(start, stop):
            if index < len(ask.block_hashes):
                block = ask.block_hashes[index]
            else:
                beyond = index - ask.prompt_tokens // self.block_tokens
                if not 0 <= beyond < len(ask.output_hashes):
                    continue
                block = ask.output_hashes[beyond]
            if block not in self._holders:
                self._holders[block] = 1
                sequence.shared_hashes.append(block)
                if self._diary is not None:
                    self._diary.born(block, self.now_seconds)

    def _take(self, count: int) -> None:
        self.free_blocks -= count
        while count:
            key, here = self._queue.popitem(last=False)
            if key[0] == "shared":
                del self._holders[key[1]]
                self.evicted_blocks += 1
                if self._diary is not None:
                    self._diary.evicted(key[1], self.now_seconds)
                count -= 1
            elif here > count:
                self._queue[key] = here - count
                self._queue.move_to_end(key, last=False)
                count = 0
            else:
                count -= here
