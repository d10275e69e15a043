"""Counting: what came in since the last tick becomes good, bad and undecided events of every SLO."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.model import SliName, SliSource, Slo
from agent.sli.canary import canary_events
from agent.sli.engine import Balance, ended_requests, engine_counts, pending_for
from agent.sli.pending import Ended
from agent.windows import EngineKey, Increment, Windows


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

    balances: dict[tuple[str, EngineKey], Balance | None] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    _of: tuple[tuple[Slo, ...], Mapping[str, TargetFacts]] | None = None  # what the rest was kept for
    _concerned: dict[tuple[str, str, SliSource], tuple[Slo, ...]] = field(default_factory=dict)

    def of(self, slo: Slo, key: EngineKey) -> Balance | None:
        place = (slo.name, key)
        if place not in self.balances:
            self.balances[place] = pending_for(slo)
        return self.balances[place]

    def concerned(self, target: str, model: str, source: SliSource) -> tuple[Slo, ...]:
        """The SLOs of this source that count what this target does, as of the last `keep`."""
        place = (target, model, source)
        if place not in self._concerned:
            slos, targets = self._of or ((), {})
            facts = targets.get(target)
            self._concerned[place] = tuple(s for s in slos if s.source == source and concerns(s, facts, model))
        return self._concerned[place]

    def keep(self, slos: tuple[Slo, ...], targets: Mapping[str, TargetFacts], windows: Windows) -> None:
        """Drop what is no longer asked for. An SLO that counts other events than before begins anew: the events of
        another threshold are not its own. A new objective changes no event.
        """
        if self._of is not None and self._of[0] is slos and self._of[1] is targets:
            return
        self._of, self._concerned = (slos, targets), {}
        now = {slo.name: _definition(slo) for slo in slos}
        changed = {name for name, definition in self.definitions.items() if now.get(name) != definition}
        for name in changed:
            windows.events.pop(name, None)
        gone = [place for place in self.balances if place[0] in changed or place[1].target not in targets]
        for place in gone:
            del self.balances[place]
        self.definitions = now


def _definition(slo: Slo) -> Definition:
    limits = slo.threshold_seconds, slo.ttft_seconds, slo.tpot_seconds
    return slo.sli, slo.source, *limits, slo.service, slo.model, slo.role


def count_events(
    slos: tuple[Slo, ...], targets: Mapping[str, TargetFacts], windows: Windows, pending: PendingBook
) -> None:
    """Drain the windows' fresh readings into their event buckets; each reading counts once for each SLO it concerns."""
    pending.keep(slos, targets, windows)
    increments, probes = windows.drain()
    for slo in slos:
        windows.events[slo.name]  # an SLO without events has empty buckets
    for increment in increments:
        if increment.key.source == "vllm":
            _count_increment(increment, windows, pending)
    for result in probes:
        for slo in pending.concerned(result.target, result.model, "canary"):
            buckets = windows.events[slo.name]
            buckets.begin(result.planned_at_seconds)
            buckets.add(canary_events(slo, result, has_succeeded=result.target in windows.succeeded))


def _count_increment(increment: Increment, windows: Windows, pending: PendingBook) -> None:
    """One increment for every SLO it concerns: what SLOs of one question ask of it is read once."""
    key, since, until = increment.key, increment.from_seconds, increment.to_seconds
    ended: dict[tuple[SliName, float | None, float | None], Ended] = {}
    for slo in pending.concerned(key.target, key.model, "engine"):
        question = (slo.sli, slo.threshold_seconds, slo.ttft_seconds)
        ends = ended.get(question)
        if ends is None:
            ends = ended[question] = ended_requests(slo, increment)
        counts = engine_counts(slo, increment, ends, pending.of(slo, key))
        buckets = windows.events[slo.name]
        buckets.begin(until)
        buckets.count(since, until, (counts.good, counts.bad, counts.undecided))


def concerns(slo: Slo, facts: TargetFacts | None, model: str) -> bool:
    """Whether an SLO counts what this target does. A target the plan does not know (it vanished) counts for none."""
    if facts is None:
        return False
    if facts.service is not None and facts.service != slo.service:
        return False
    if slo.model is not None and slo.model != (model or facts.model):
        return False
    return slo.role is None or slo.role == facts.role
