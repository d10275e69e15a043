"""What the runtime would do for a visitor, recorded."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from probes.sample import ProbeResult


@dataclass(slots=True)
class FakeActions:
    """`agent.web.actions.Actions`: answers as told, remembers what it was asked."""

    errors: list[str] = field(default_factory=list)
    answer: ProbeResult | str = "connect_refused"
    takes_seconds: float = 0.0
    urls: Mapping[str, str] = field(default_factory=lambda: {"vllm-0": "http://vllm-0:8000"})
    reloads: int = 0
    probed: list[tuple[str, str | None]] = field(default_factory=list)

    async def reload(self) -> list[str]:
        self.reloads += 1
        return self.errors

    async def probe(self, url: str, model: str | None) -> ProbeResult | str:
        self.probed.append((url, model))
        await asyncio.sleep(self.takes_seconds)
        return self.answer

    def target_urls(self) -> Mapping[str, str]:
        return self.urls
