"""Counting: what came in since the last tick becomes good, bad and undecided events of every SLO."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agent.model import Slo
from agent.sli.canary import canary_events
from agent.sli.engine import engine_events, pending_for
from agent.sli.pending import PendingRequests
from agent.windows import EngineKey, Windows


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What the plan knows of a target: whom it serves. `model` is "" until a page or the config names it."""

    model: str
    role: str
    service: str | None
    dollars_per_second: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


Definition = tuple[object, ...]


@dataclass(slots=True)
class PendingBook:
    """The balances of pending requests, one per SLO and engine, and what each SLO's events mean."""

    balances: dict[tuple[str, EngineKey], PendingRequests | None] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)

    def of(self, slo: Slo, key: EngineKey) -> PendingRequests | None:
        place = (slo.name, key)
        if place not in self.balances:
            self.balances[place] = pending_for(slo)
        return self.balances[place]

    def keep(self, slos: Iterable[Slo], targets: Mapping[str, TargetFacts], windows: Windows) -> None:
        """Drop what is no longer asked for. An SLO that counts other events than before begins anew: the events of
        another threshold are not its own. A new objective changes no event.
        """
        now = {slo.name: _definition(slo) for slo in slos}
        changed = {name for name, definition in self.definitions.items() if now.get(name) != definition}
        for name in changed:
            windows.events.pop(name, None)
        gone = [place for place in self.balances if place[0] in changed or place[1].target not in targets]
        for place in gone:
            del self.balances[place]
        self.definitions = now


def _definition(slo: Slo) -> Definition:
    return slo.sli, slo.source, slo.threshold_seconds, slo.service, slo.model, slo.role


def count_events(
    slos: tuple[Slo, ...], targets: Mapping[str, TargetFacts], windows: Windows, pending: PendingBook
) -> None:
    """Drain the windows' fresh readings into their event buckets; each reading counts once for each SLO it concerns."""
    pending.keep(slos, targets, windows)
    increments, probes = windows.drain()
    for slo in slos:
        buckets = windows.events[slo.name]
        if slo.source == "engine":
            for increment in increments:
                if increment.key.source == "vllm" and concerns(
                    slo, targets.get(increment.key.target), increment.key.model
                ):
                    buckets.begin(increment.to_seconds)
                    buckets.add(engine_events(slo, increment, pending.of(slo, increment.key)))
        else:
            for result in probes:
                if concerns(slo, targets.get(result.target), result.model):
                    buckets.begin(result.planned_at_seconds)
                    buckets.add(canary_events(slo, result, has_succeeded=result.target in windows.succeeded))


def concerns(slo: Slo, facts: TargetFacts | None, model: str) -> bool:
    """Whether an SLO counts what this target does. A target the plan does not know (it vanished) counts for none."""
    if facts is None:
        return False
    if facts.service is not None and facts.service != slo.service:
        return False
    if slo.model is not None and slo.model != (model or facts.model):
        return False
    return slo.role is None or slo.role == facts.role
