"""The KV-reuse canary: the same prompt twice under a salt of its own, cold and warm, with growing gaps between them."""

import asyncio
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from probes.canary.base_url import base_url
from probes.canary.filler import filler, fresh_salt
from probes.canary.item import CanaryItem, Cost, whose_turn
from probes.canary.memory import Seed
from probes.canary.task import ProbeTask
from probes.canary.visit import CHAT_PATH, Answered, Visit, message, pause, streamed
from probes.sample import ProbeResult
from probes.units import Seconds

OUTPUT_TOKENS = 8  # enough to tell two answers apart
LONGEST_WAIT_SECONDS = 5.0  # a longer gap is not waited for in one run: the target is free meanwhile
Gap = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class KvReuseCanary(CanaryItem):
    """A prompt of its own sent cold, then warm: is the KV cache used, how much faster is it, how long does it last?"""

    kind: Literal["kv_reuse"] = "kv_reuse"
    interval_seconds: Seconds = Field(300, description="Planned time between two canaries on one target, seconds.")
    prompt_tokens: int = Field(1024, ge=64, le=65_536, description="About so many tokens of prompt: several KV blocks.")
    gaps_seconds: list[Gap] = Field(
        [1, 60, 600],
        min_length=1,
        description="Gaps between cold and warm, taken in turn; long ones end with the first run after them. Seconds.",
    )

    warm_target: str = Field(
        "",
        description="The target that the warm half goes to: a hit there came through a cache that both share (LMCache, "
        "Mooncake). Empty: the one that was asked cold.",
    )

    def cost(self) -> Cost:
        """Both halves are sent; only the cold one is prefilled, if the cache works."""
        return Cost(2, 2 * self.prompt_tokens, self.prompt_tokens, 2 * OUTPUT_TOKENS)

    def fill(self, task: ProbeTask) -> ProbeTask:
        """The gap whose turn it is."""
        gap_seconds = self.gaps_seconds[whose_turn(task.turn, len(self.gaps_seconds))]
        return replace(
            CanaryItem.fill(self, task),
            prompt="",
            prompt_tokens=self.prompt_tokens,
            gap_seconds=gap_seconds,
            max_tokens=OUTPUT_TOKENS,
        )


async def run(visit: Visit) -> ProbeResult:
    """The warm half of a pair that is due; else a cold half, and its warm one where the gap is short.

    A pair is read once: reading it would keep its blocks from being evicted.
    """
    place = visit.base, visit.model, visit.task.rank
    now_seconds = visit.clock.monotonic_seconds()
    waiting = visit.memory.seeds.get(place)
    if waiting is not None and waiting.due_at_seconds <= now_seconds:
        del visit.memory.seeds[place]
        return await _warm(visit, waiting)
    gap_seconds = visit.task.gap_seconds
    if waiting is not None:
        gap_seconds = min(gap_seconds, LONGEST_WAIT_SECONDS)  # one long gap at a time
    salt = fresh_salt()
    cold = await _ask(visit, salt)
    seed = Seed(
        salt,
        now_seconds,
        now_seconds + gap_seconds,
        cold.figures.ttft_seconds,
        cold.stream.cached_tokens,
        cold.stream.text,
    )
    if cold.fault is not None:
        return cold.result(_figures(seed, None, None))
    if gap_seconds > LONGEST_WAIT_SECONDS:
        visit.memory.seeds[place] = seed
        cold.flags["pair_begun"] = None
        return cold.result(_figures(seed, None, None))
    await pause(visit, gap_seconds)
    return await _warm(visit, seed)


async def _warm(visit: Visit, seed: Seed) -> ProbeResult:
    """The result is of the target that was asked cold, wherever the warm half went."""
    gap_seconds = visit.clock.monotonic_seconds() - seed.sent_at_seconds
    there = _there(visit)
    warm = await _ask(there, seed.salt)
    if there is not visit and visit.sent and visit.sent[-1].target == there.task.target:
        # Hits there are of a shared cache; what the engine counts as hits is what its own cache held.
        visit.sent[-1] = replace(visit.sent[-1], cached_tokens=None)
    figures = _figures(seed, warm, gap_seconds)
    if warm.fault is None:
        if figures["warm_cached_tokens"] is None:
            warm.flags["cached_tokens_unknown"] = None  # vLLM tells with --enable-prompt-tokens-details
        elif figures["warm_cached_tokens"] == 0:
            warm.flags["not_reused"] = None
        if figures["answers_equal"] == 0:
            warm.flags["answers_differ"] = None
    return replace(warm.result(figures), target=visit.task.target, rank=visit.task.rank)


def _there(visit: Visit) -> Visit:
    """The same visitor at the instance that the warm half goes to, whatever rank it has there."""
    there = visit.task.elsewhere
    if there is None:
        return visit
    task = replace(visit.task, target=there.target, url=there.url, token=there.token, route=there.route, rank="")
    return replace(visit, task=task, base=base_url(there.url) or visit.base, model=there.model or visit.model)


async def _ask(visit: Visit, salt: str) -> Answered:
    await asyncio.sleep(0)
    body = message(filler(visit.task.prompt_tokens, salt)) | {"cache_salt": salt} | streamed(visit.task.max_tokens)
    return await visit.ask(CHAT_PATH, body)


def _figures(seed: Seed, warm: Answered | None, gap_seconds: float | None) -> dict[str, float | None]:
    """The pair in numbers; None for what a missing half or a server without token details does not show.

    `reused_ratio` is of the prompt without its last token, which is always computed.
    """
    good = warm if warm is not None and warm.fault is None else None
    cached = None if good is None else good.stream.cached_tokens
    prompt = None if good is None else good.stream.prompt_tokens
    return {
        "gap_seconds": gap_seconds,
        "cold_ttft_seconds": seed.ttft_seconds,
        "warm_ttft_seconds": None if good is None else good.figures.ttft_seconds,
        "cold_cached_tokens": _number(seed.cached_tokens),
        "warm_cached_tokens": _number(cached),
        "reused_ratio": None if cached is None or prompt is None or prompt < 2 else min(1.0, cached / (prompt - 1)),
        "answers_equal": None if good is None else float(good.stream.text == seed.text),
    }


def _number(count: int | None) -> float | None:
    return None if count is None else float(count)
