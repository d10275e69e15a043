"""What a canary costs the users of an engine, in words, before it is sent."""

from collections.abc import Sequence
from typing import Final

from probes.canary.item import CanaryItem

# An 8,192-token prefill stalled every stream of the engine by 210 ms: measured, H200, an 8B model, chunks of 8,192.
PREFILL_STALL_SECONDS_PER_TOKEN: Final = 0.210 / 8192
BLOCK_TOKENS: Final = 16  # vLLM's default


def cost_words(canary: CanaryItem) -> str:
    """Requests and tokens an hour; for how long every running stream stalls; how many blocks of users' KV may go."""
    cost, per_hour = canary.cost(), 3600 / canary.interval_seconds
    an_hour = cost.requests * per_hour
    words = f"{an_hour:.4g} request{'' if an_hour == 1 else 's'}/h"
    if not cost.tokens:
        return f"{words}, no tokens"
    words += (
        f", about {cost.prompt_tokens * per_hour:,.0f} prompt and {_output_words(cost.output_tokens * per_hour)} "
        f"tokens/h; it holds one sequence while it runs"
    )
    return f"{words}; {disturbance_words([canary])}"


def disturbance_words(canaries: Sequence[CanaryItem]) -> str:
    """What these take from users beside tokens: time of their streams, and blocks of their cache."""
    stalled = sum(map(stalled_seconds_per_hour, canaries))
    evicted = sum(map(evicted_blocks_per_hour, canaries))
    blocks = f"up to {evicted:,.0f}" if evicted else "hardly any"
    return (
        f"stalls each running stream by about {stalled:.2g} s/h (at an H200's prefill rate) and may push {blocks} "
        f"KV blocks of {BLOCK_TOKENS} tokens out of the cache an hour"
    )


def _output_words(tokens: float) -> str:
    return f"at most {tokens:,.0f} output" if tokens else "no output"


def stalled_seconds_per_hour(canary: CanaryItem) -> float:
    """Seconds by which every stream that runs beside it is held up in an hour, by prefill alone.

    Of a prompt that is always the same, the last block is computed each time: only whole blocks are kept.
    """
    cost = canary.cost()
    cached = max(0, cost.prompt_tokens - cost.fresh_prompt_tokens - BLOCK_TOKENS * cost.requests)
    return (cost.prompt_tokens - cached) * PREFILL_STALL_SECONDS_PER_TOKEN * 3600 / canary.interval_seconds


def evicted_blocks_per_hour(canary: CanaryItem) -> float:
    """KV blocks that prompts of its own fill in an hour: a full cache gives up as many of its users' blocks."""
    return -(-canary.cost().fresh_prompt_tokens // BLOCK_TOKENS) * 3600 / canary.interval_seconds
