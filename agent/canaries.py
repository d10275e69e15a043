"""Canaries as the agent sends them: one at a time on a target, within limits, each with exactly one result."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

from agent.config import Config
from agent.config_watching import Target
from agent.fleet import owner
from agent.living import LivingView
from agent.planning import canary_targets, place_of, probe_task, warm_target
from agent.windows import Windows
from probes.canary.chat import ChatCanary
from probes.canary.gate import HOUR_SECONDS, Gate, Pressure, Refusal
from probes.canary.item import CanaryItem
from probes.canary.process import CanaryProcess
from probes.canary.task import ProbeTask, unrun
from probes.clock import Clock
from probes.sample import ProbeResult, SentRequest

TOKENS = ("prompt_tokens_total", "generation_tokens_total")


@dataclass(slots=True)
class Canaries:
    """The canary process behind its gate."""

    clock: Clock
    view: LivingView
    process: CanaryProcess
    gate: Gate = field(default_factory=Gate)
    _turns: Counter[tuple[str, str]] = field(default_factory=Counter)  # runs that were sent, by target and canary

    async def run(self, canary: CanaryItem, target: Target, config: Config, planned_at_seconds: float) -> ProbeResult:
        """One planned run: sent when the target is free, or not sent, and then the result says why."""
        there = warm_target(canary, target, config)
        both = [target] if there is None else [target, there]
        async with AsyncExitStack() as turns:
            for name in sorted(one.name for one in both):  # always in one order: two pairs never wait for each other
                await turns.enter_async_context(self.gate.turn(name))
            now_seconds = self.clock.now_seconds()
            task = self._task(canary, target, None, planned_at_seconds)
            prober = owner(target.name, config.fleet.members) if config.fleet.members else config.fleet.member
            if prober != config.fleet.member:
                return unrun(task, "skipped_not_owner", now_seconds, f"{prober} probes this target")
            for one in both:
                if (refusal := self._refusal(canary, one, config, now_seconds)) is not None:
                    of = "" if one is target else f"{one.name}: "
                    return unrun(task, refusal.outcome, now_seconds, of + refusal.detail)
            self._turns[_place(canary, target)] += 1
            result = await self._send(task if there is None else replace(task, elsewhere=place_of(there)), config)
            if there is not None:
                self.gate.note_half(canary, there.name, result, self.clock.now_seconds())
            return self.gate.take(canary, result, config.canary_limits, self.clock.now_seconds())

    def _refusal(self, canary: CanaryItem, target: Target, config: Config, now_seconds: float) -> Refusal | None:
        return self.gate.refusal(
            canary,
            target.name,
            config.canary_limits,
            pressure_on(self.view.memory.windows, target.name, now_seconds),
            now_seconds,
            is_cheapest=canary.cost().tokens <= _least_tokens(config.canaries, target),
        )

    async def ask(self, target: Target, model: str | None, config: Config) -> ProbeResult:
        """One chat canary that somebody asked for; what it takes counts, and nothing holds it back but another one."""
        canary = next((item for item in config.canaries if isinstance(item, ChatCanary)), ChatCanary())
        task = self._task(canary, target, model, self.clock.now_seconds())
        async with self.gate.turn(target.name):
            result = await self._send(task, config)
            return self.gate.take(canary, result, config.canary_limits, self.clock.now_seconds())

    async def _send(self, task: ProbeTask, config: Config) -> ProbeResult:
        """What the target's page shows of it is looked for, so that users' requests are told without it."""
        own, there = self.view.memory.windows.own, task.elsewhere
        if not config.subtract_canaries or task.target not in self.view.plan.targets:
            return await self.process.probe(task)
        sent: dict[str, tuple[SentRequest, ...]] = {}
        names = (task.target,) if there is None else (task.target, there.target)
        for name in names:
            own.begin(name, self.clock.now_seconds())
        try:
            result = await self.process.probe(task)
            sent = result.sent_by_target()
        finally:
            for name in names:
                own.end(name, sent.get(name, ()))
        return result

    def missed(self, canary: CanaryItem, target: Target, planned_at_seconds: float) -> ProbeResult:
        """The result of a run that nobody had time for."""
        task = self._task(canary, target, None, planned_at_seconds)
        return unrun(task, "missed", self.clock.now_seconds(), "the agent had no time for it")

    def _task(self, canary: CanaryItem, target: Target, model: str | None, planned_at_seconds: float) -> ProbeTask:
        known = self.view.memory.windows.targets.get(target.name)
        ranks = (self._ranks(target.name) if canary.ranks else []) or [""]
        turn, place = divmod(self._turns[_place(canary, target)], len(ranks))
        rank = ranks[place] if len(ranks) > 1 else ""
        asked = model or (known.model or None if known else None)
        return probe_task(canary, target, asked, planned_at_seconds, turn, rank)

    def _ranks(self, target: str) -> list[str]:
        """The data-parallel ranks that the target's page shows; one engine has none to choose from, nor have replicas
        that a gateway's page tells by name.
        """
        engines = {increment.key.engine for increment in self.view.memory.windows.on_page(target)}
        return sorted((engine for engine in engines if engine.isdecimal()), key=int)


def pressure_on(windows: Windows, target: str, now_seconds: float) -> Pressure:
    """What the target's last pages say of its users; None where they do not."""
    last = windows.on_page(target)
    waiting = [i.gauges["requests_waiting", ""] for i in last if ("requests_waiting", "") in i.gauges]
    usage = [i.gauges["kv_usage_ratio", ""] for i in last if ("kv_usage_ratio", "") in i.gauges]
    tokens = [
        i.counters[signal, ""]
        for i in windows.between(now_seconds - HOUR_SECONDS, now_seconds, [target])
        for signal in TOKENS
        if (signal, "") in i.counters
    ]
    awake = [i.gauges["engine_sleep_state", "awake"] for i in last if ("engine_sleep_state", "awake") in i.gauges]
    return Pressure(
        sum(waiting) if waiting else None,
        max(usage) if usage else None,
        sum(tokens) if tokens else None,
        is_asleep=bool(awake) and not any(awake),
    )


def _place(canary: CanaryItem, target: Target) -> tuple[str, str]:
    """Whose runs take turns: those that were sent count, so that one that hangs does not take the turn of the next."""
    return target.name, canary.model_dump_json()


def _least_tokens(canaries: Sequence[CanaryItem], target: Target) -> int:
    """What the cheapest canary of those sent to the target costs, tokens a run."""
    return min((item.cost().tokens for item in canaries if canary_targets(item, [target])), default=0)
