"""Sends canaries of every kind, one visit each, and always has a result."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from probes.canary import (
    chat,
    completion,
    correctness,
    embedding,
    kv_reuse,
    long_prompt,
    models,
    responses,
    streaming_shape,
)
from probes.canary.base_url import base_url
from probes.canary.lag import LagMonitor
from probes.canary.memory import Memory
from probes.canary.redaction import redact
from probes.canary.task import ProbeKind, ProbeTask, unrun
from probes.canary.transport import Transport
from probes.canary.visit import Visit
from probes.clock import Clock
from probes.sample import ProbeResult

KINDS: Final[Mapping[ProbeKind, Callable[[Visit], Awaitable[ProbeResult]]]] = {
    "chat": chat.run,
    "models": models.run,
    "completion": completion.run,
    "responses": responses.run,
    "embedding": embedding.run,
    "kv_reuse": kv_reuse.run,
    "correctness": correctness.run,
    "long_prompt": long_prompt.run,
    "streaming_shape": streaming_shape.run,
}


async def run_probe(task: ProbeTask, clock: Clock) -> ProbeResult:
    """One canary now, in this process. Never raises but when cancelled; whatever happens is in the result."""
    return await Prober(clock).probe(task)


@dataclass(slots=True)
class Prober:
    """Sends canaries and remembers what it learnt about each server."""

    clock: Clock
    transport: Transport = field(default_factory=Transport)
    memory: Memory = field(default_factory=Memory)
    lag: LagMonitor = field(default_factory=LagMonitor)

    async def probe(self, task: ProbeTask) -> ProbeResult:
        """Exactly one result for one task."""
        at_seconds = self.clock.now_seconds()
        try:
            return await self._probe(task, at_seconds)
        except Exception as error:  # noqa: BLE001 - exactly one result per probe, whatever happens
            return unrun(task, "internal_error", at_seconds, redact(f"{type(error).__name__}: {error}", task.secrets))

    async def _probe(self, task: ProbeTask, at_seconds: float) -> ProbeResult:
        base = base_url(task.url)
        if base is None:
            return unrun(task, "invalid_url", at_seconds, "the URL must begin with http:// or https:// and name a host")
        ends_at = asyncio.get_running_loop().time() + self.clock.real_seconds(task.total_timeout_seconds)
        model = task.model or ("" if task.kind == "models" else self.memory.models.get(base))
        visit = Visit(task, base, model or "", at_seconds, ends_at, self.clock, self.transport, self.lag, self.memory)
        if model is None:
            listed = await models.listed(visit)
            if listed.fault is not None:
                return unrun(
                    task, listed.fault.outcome, at_seconds, visit.redacted(f"/v1/models: {listed.fault.detail}")
                )
            model = self.memory.models[base] = listed.names[0]
            visit = Visit(task, base, model, at_seconds, ends_at, self.clock, self.transport, self.lag, self.memory)
        if task.adapter_turn is not None:
            visit = replace(visit, model=await _taken_in_turn(visit, task.adapter_turn))
        return await KINDS[task.kind](visit)


async def _taken_in_turn(visit: Visit, turn: int) -> str:
    """The model, or the LoRA adapter of it whose turn it is; the model where the list cannot be had."""
    listed = await models.listed(visit)
    adapters = sorted(name for name, parent in listed.parents.items() if parent == visit.model and name in listed.names)
    choices = [visit.model, *adapters]
    return choices[turn % len(choices)]
