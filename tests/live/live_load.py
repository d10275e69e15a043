"""A load of streamed chat requests, and how each of them ended for its client."""

import asyncio
import json
from dataclasses import dataclass, field

import aiohttp

LONGEST_SECONDS = 120.0


@dataclass(slots=True)
class Load:
    """What clients saw. `cut` streams were HTTP 200 and had no end; `tokens` are those of answered ones."""

    answered: int = 0
    failed: int = 0
    cut: int = 0
    hung_up: int = 0
    prompt_tokens: int = 0
    tokens: int = 0
    statuses: dict[int, int] = field(default_factory=dict)

    @property
    def bad(self) -> int:
        return self.failed + self.cut

    def __str__(self) -> str:
        return (
            f"{self.answered} answered, {self.failed} failed, {self.cut} cut off, {self.hung_up} hung up, "
            f"{self.prompt_tokens} + {self.tokens} tokens"
        )


def send_load(url: str, requests: int, at_once: int, tokens: int, *, hang_up: int = 0) -> Load:
    """So many requests to their end; the last `hang_up` of them are left after a few tokens."""
    return asyncio.run(_send(url, requests, at_once, tokens, hang_up))


async def _send(url: str, requests: int, at_once: int, tokens: int, hang_up: int) -> Load:
    load, gate = Load(), asyncio.Semaphore(at_once)
    timeout = aiohttp.ClientTimeout(total=LONGEST_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def one(number: int) -> None:
            async with gate:
                try:
                    await _ask(session, url, number, tokens, load, leaves=number >= requests - hang_up)
                except aiohttp.ClientPayloadError:
                    load.cut += 1
                except aiohttp.ClientError:
                    load.failed += 1

        await asyncio.gather(*map(one, range(requests)))
    return load


async def _ask(session: aiohttp.ClientSession, url: str, number: int, tokens: int, load: Load, *, leaves: bool) -> None:
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": f"request {number}: " + "a word and another " * 20}],
        "max_tokens": tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    usage: dict[str, int] = {}
    async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
        load.statuses[answer.status] = load.statuses.get(answer.status, 0) + 1
        if answer.status != 200:
            load.failed += 1
            return
        events = 0
        async for line in answer.content:
            text = line.decode().strip()
            if text == "data: [DONE]" and usage:
                load.answered += 1
                load.prompt_tokens += usage["prompt_tokens"]
                load.tokens += usage["completion_tokens"]
                return
            if text.startswith("data: {"):
                events += 1
                usage = json.loads(text.removeprefix("data: ")).get("usage") or usage
            if leaves and events >= 3:
                load.hung_up += 1
                return
    load.cut += 1
