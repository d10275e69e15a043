"""The demo's story, told: what the agent says, what happens behind the stage, and the operator who follows advice."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from agent.alerts.slo_alerts import window_word
from agent.model import Alert, Effects, Recommendation
from agent.pace import Lateness
from probes.clock import ScaledClock

READING_SECONDS = 240.0  # the advice comes before the page; the operator takes their time, and so is paged
LOOK_SECONDS = 0.25  # real: how often we look behind the stage
PATIENCE_SECONDS = 5.0  # real
INDENT = " " * 21
VERDICTS = {
    "kept": "the advice came true: kept (it was followed, and the objective holds again)",
    "missed": "the advice did not help: missed (it was followed, and the objective still burns)",
    "not_applied": "nobody followed the advice: not_applied",
    "unknown": "nobody can tell: unknown (it was followed, but no requests show how the objective fares)",
    "withdrawn": "by then the load said otherwise: withdrawn",
    "confounded": "nobody can tell: confounded (it was followed, but more load came than was foreseen)",
    "superseded": "newer advice took its place: superseded",
}


@dataclass(slots=True)
class Story:
    """Tells what happens and plays the operator. Feed it the agent's effects; `watch` looks behind the stage.

    Minutes count from the simulator's own beginning, the clock's epoch; the time beside them is the page's.
    """

    simulator_url: str
    clock: ScaledClock
    say: Callable[[str], None]
    tick_seconds: float = 5.0
    _acting: asyncio.Task[None] | None = None
    _had_trouble: bool = False
    _advised_replicas: int = 0
    _open: set[str] = field(default_factory=set)
    _heard_at_seconds: float | None = None
    _agent_late_seconds: float = 0.0
    _rate: float | None = None
    _serving: set[int] = field(default_factory=set)
    _lateness: Lateness = field(init=False)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._lateness = Lateness(self.clock.speed)

    def hear(self, effects: Effects) -> None:
        """One tick's effects."""
        at_seconds = effects.snapshot.at_seconds
        if self._heard_at_seconds is not None:
            self._agent_late_seconds = at_seconds - self._heard_at_seconds - self.tick_seconds
        self._heard_at_seconds = at_seconds
        for alert in effects.changed_alerts:
            self._hear_alert(alert, at_seconds)
        for advice in effects.changed_recommendations:
            self._hear_advice(advice, at_seconds)
        if self._had_trouble and not effects.snapshot.alerts and not self._open:
            self.ended.set()

    async def watch(self) -> None:
        """Look behind the stage for ever: the load, the replicas, and whether this machine keeps up."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_SECONDS)) as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(f"{self.simulator_url}/control/status") as answer:
                        self.see(await answer.json())
                await asyncio.sleep(LOOK_SECONDS)

    def see(self, state: Mapping[str, Any]) -> None:
        """The simulator's own account of itself (`/control/status`)."""
        at_seconds = float(state["at"])
        rate = state["rate_per_second"]
        if self._rate is not None and rate != self._rate:
            self._tell(at_seconds, f"the load goes from {self._rate:g} to {rate:g} requests a second")
        self._rate = rate
        serving = {replica["index"] + 1 for replica in state["replicas"] if replica["phase"] == "ready"}
        if self._serving and (new := sorted(serving - self._serving)):
            many = len(new) > 1
            names = " and ".join(filter(None, (", ".join(map(str, new[:-1])), str(new[-1]))))
            words = f"replica{'s' if many else ''} {names} serve{'' if many else 's'} now"
            self._tell(at_seconds, f"{words}: {len(serving)} in all")
        self._serving = serving
        if warning := self._lateness.judge(state["lag_seconds"], self._agent_late_seconds):
            self._tell(at_seconds, f"WARNING: {warning}")

    def _hear_alert(self, alert: Alert, at_seconds: float) -> None:
        labels = dict(alert.labels)
        word = "PAGE" if labels["severity"] == "page" else "ticket"
        self._had_trouble |= word == "PAGE"
        if alert.is_firing:
            self._tell(at_seconds, f"{word}: {alert.annotations['summary']}")
            self.say(f"{INDENT}why: {alert.annotations['cause']}")
            return
        lasted = window_word(round((at_seconds - alert.starts_at_seconds) / 60) * 60)
        about = labels.get("slo") or labels.get("target") or labels.get("service", "")
        tier = f" ({labels['tier']})" if "tier" in labels else ""
        self._tell(at_seconds, f"resolved: {alert.name} of {about}{tier}, the {word.lower()} of {lasted} ago")

    def _hear_advice(self, advice: Recommendation, at_seconds: float) -> None:
        if advice.verdict is not None:
            self._open.discard(advice.id)
            self._had_trouble = True  # advice that is followed in time spares the page
            self._tell(at_seconds, f"verdict: {VERDICTS.get(advice.verdict, advice.verdict)}")
            self.say(f"{INDENT}it was: {advice.summary}")
            return
        self._open.add(advice.id)
        self._tell(at_seconds, f"ADVICE: {advice.summary}")
        self._advised_replicas = int(advice.proposed)
        if self._acting is None or self._acting.done():
            self._acting = asyncio.create_task(self._act())

    async def _act(self) -> None:
        """Read the advice, and follow the newest there is by then."""
        await self.clock.sleep(READING_SECONDS)
        replicas = self._advised_replicas
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_SECONDS)) as session,
                session.post(f"{self.simulator_url}/control/replicas", json={"count": replicas}) as answer,
            ):
                answer.raise_for_status()
        except (aiohttp.ClientError, TimeoutError) as error:
            self.say(f"{INDENT}the operator could not scale the simulator: {type(error).__name__}")
            return
        words = f"the operator follows it and asks for {replicas} replicas; new ones need their cold start"
        self._tell(self.clock.now_seconds(), words)

    def _tell(self, at_seconds: float, words: str) -> None:
        minute = (at_seconds - self.clock.epoch_seconds) / 60
        on_the_page = time.strftime("%H:%M:%S", time.localtime(at_seconds))
        self.say(f"[{minute:4.1f} min {on_the_page}] {words}")
