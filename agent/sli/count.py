"""Counting: what came in since the last tick becomes good, bad and undecided events of every SLO."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import get_args

from agent.model import Counts, SliSource, Slo
from agent.sli.canary import canary_events
from agent.sli.composites import Joined
from agent.sli.engine import (
    Balance,
    ended_requests,
    engine_counts,
    inside_at_end,
    outcomes_of,
    pending_for,
    waits_for_first_token,
)
from agent.sli.legs import HALVES, Legs, decode_limit
from agent.sli.router import RouterBook
from agent.sli.slices import Slices
from agent.sli.span import span_counts
from agent.sli.uncovered import SpanBalance
from agent.windows import ArrivedSpan, EngineKey, Increment, Windows
from probes.engine_args import EngineArgs
from probes.systems import ENGINES, ROUTERS

LONGEST_ON_ITS_WAY_SECONDS = 300.0  # a span told to have ended longer ago is one of a clock that is set wrong


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What the plan knows of a target: whom it serves. `model` is "" until a page or the config names it.

    A role that neither config nor labels said is "aggregated" until something shows another (agent/sli/roles.py).
    """

    model: str
    role: str
    service: str | None
    dollars_per_second: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    role_is_said: bool = True
    url: str = ""
    gpu_type: str | None = None
    engine_args: EngineArgs = field(default_factory=EngineArgs)


Definition = tuple[object, ...]
Asking = tuple[tuple[Slo, Balance | None], ...]  # SLOs of one question, each with its balance of an engine


@dataclass(slots=True)
class PendingBook:
    """The balances of pending requests, one per SLO and engine, and what each SLO's events mean."""

    balances: dict[tuple[str, EngineKey], Balance | None] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    spans: dict[tuple[str, str], SpanBalance] = field(default_factory=dict)  # by target and model
    legs: dict[tuple[str, str], Legs] = field(default_factory=dict)  # by SLO and model; not kept over a restart
    joined: dict[str, Joined] = field(default_factory=dict)  # what members said so far, by composite
    slices: dict[str, Slices] = field(default_factory=dict)  # those without a verdict, of the SLOs that count slices
    routers: RouterBook = field(default_factory=RouterBook)
    _decode_limits: dict[str, float] = field(default_factory=dict)
    _has_both_halves: bool = False
    _of: tuple[tuple[Slo, ...], Mapping[str, TargetFacts]] | None = None  # what the rest was kept for
    _concerned: dict[tuple[str, str, SliSource], tuple[Slo, ...]] = field(default_factory=dict)
    _asked: dict[EngineKey, tuple[Asking, ...]] = field(default_factory=dict)

    def asked(self, key: EngineKey) -> tuple[Asking, ...]:
        """The SLOs that count what this engine does, those of one question together, as of the last `keep`."""
        if key not in self._asked:
            by_question: dict[Definition, list[tuple[Slo, Balance | None]]] = defaultdict(list)
            for slo in self.concerned(key.target, key.model, "engine"):
                if slo.engine is None or slo.engine == key.engine:
                    by_question[slo.sli, slo.threshold_seconds, slo.ttft_seconds].append((slo, self.of(slo, key)))
            self._asked[key] = tuple(map(tuple, by_question.values()))
        return self._asked[key]

    def of(self, slo: Slo, key: EngineKey) -> Balance | None:
        place = (slo.name, key)
        try:
            return self.balances[place]
        except KeyError:
            balance = self.balances[place] = pending_for(slo)
            return balance

    def once(self, slo: Slo, increment: Increment, counts: Counts) -> Counts:
        """These events as the service's: a request that prefills here and decodes there counts once.

        An SLO that names a role counts what its instances do, for itself; so does one half whose other is not watched.
        """
        if slo.role is not None or not self._has_both_halves or self._of is None:
            return counts
        facts = self._of[1].get(increment.key.target)
        if facts is None or facts.role not in HALVES:
            return counts
        if facts.role == "decode" and (limit := decode_limit(slo, increment)) is not None:
            self._decode_limits[slo.name] = limit
        legs = self.legs.setdefault((slo.name, increment.key.model), Legs())
        return legs.count(slo, facts.role, counts, increment, self._decode_limits.get(slo.name, 0.0))

    def record(self, slo: Slo, windows: Windows, since: float, until: float, counts: Counts) -> None:
        """Events that arose in (since, until] become the SLO's; where it counts slices, the slice's first."""
        if slo.slice_seconds is None:
            windows.events[slo.name].count(since, until, counts)
        else:
            self.slices.setdefault(slo.name, Slices()).count(slo.slice_seconds, since, until, counts)

    def judge_slices(self, windows: Windows, now_seconds: float) -> None:
        """Slices that are over by now become events of their SLOs, as of the last `keep`."""
        slos = self._of[0] if self._of and self.slices else ()
        composites = [slo for slo in slos if slo.all_of]
        for slo in (slo for slo in slos if slo.name in self.slices):
            verdicts = self.slices[slo.name].judge(slo, windows.events[slo.name], now_seconds)
            for of in (of for of in composites if slo.name in of.all_of):
                for verdict in verdicts:
                    self.joined.setdefault(of.name, Joined()).take(of, slo.name, verdict, windows.events[of.name])
        for of in composites:
            began = [windows.events[name].began_at_seconds for name in of.all_of]
            if all(at is not None for at in began):
                windows.events[of.name].begin(max(at for at in began if at is not None))

    def concerned(self, target: str, model: str, source: SliSource) -> tuple[Slo, ...]:
        """The SLOs of this source that count what this target does, as of the last `keep`."""
        place = (target, model, source)
        if place not in self._concerned:
            slos, targets = self._of or ((), {})
            facts = targets.get(target)
            self._concerned[place] = tuple(s for s in slos if s.source == source and concerns(s, facts, model))
        return self._concerned[place]

    def forget(self, gone: Collection[EngineKey]) -> None:
        """Drop what is kept of engines that are gone: what they still had inside is not counted any more."""
        lost = set(gone)
        for place in [place for place in self.balances if place[1] in lost]:
            del self.balances[place]
        for place in [place for place in self.routers.overdrawn if place[1] in lost]:
            del self.routers.overdrawn[place]
        for key in lost:
            self._asked.pop(key, None)
            self.spans.pop((key.target, key.model), None)
            for source in get_args(SliSource):
                self._concerned.pop((key.target, key.model, source), None)

    def keep(self, slos: tuple[Slo, ...], targets: Mapping[str, TargetFacts], windows: Windows) -> None:
        """Drop what is no longer asked for. An SLO that counts other events than before begins anew: the events of
        another threshold are not its own. A new objective changes no event.
        """
        if self._of is not None and self._of[0] is slos and self._of[1] is targets:
            return
        self._of, self._concerned, self._asked = (slos, targets), {}, {}
        self._has_both_halves = {facts.role for facts in targets.values()} >= set(HALVES)
        now = {slo.name: _definition(slo) for slo in slos}
        now |= {slo.name: tuple(f"{name}: {now[name]!r}" for name in slo.all_of) for slo in slos if slo.all_of}
        changed = {name for name, definition in self.definitions.items() if now.get(name) != definition}
        for name in changed:
            windows.events.pop(name, None)
            self.slices.pop(name, None)
            self.joined.pop(name, None)
        for place in [place for place in self.routers.overdrawn if place[0] in changed]:
            del self.routers.overdrawn[place]
        gone = [place for place in self.balances if place[0] in changed or place[1].target not in targets]
        for place in gone:
            del self.balances[place]
        self.spans = {place: balance for place, balance in self.spans.items() if place[0] in targets}
        self.legs = {place: legs for place, legs in self.legs.items() if place[0] in now and place[0] not in changed}
        self.definitions = now


def _definition(slo: Slo) -> Definition:
    limits = slo.threshold_seconds, slo.ttft_seconds, slo.tpot_seconds
    selected = [f"engine={slo.engine}"] if slo.engine else []
    selected += [f"{name}={value}" for name, value in slo.target_labels]
    selected += [f"slices of {slo.slice_seconds!r} s, {slo.slice_good_ratio!r} good"] if slo.slice_seconds else []
    return slo.sli, slo.source, *limits, slo.service, slo.model, slo.role, *selected


def count_events(
    slos: tuple[Slo, ...],
    targets: Mapping[str, TargetFacts],
    windows: Windows,
    pending: PendingBook,
    now_seconds: float | None = None,
) -> list[Increment]:
    """Drain the windows' fresh readings into their event buckets; each reading counts once for each SLO it concerns.

    With `now_seconds` one that may hold a canary whose result is not there yet waits for it (see `Windows.drain`).
    Returns the increments that came in.
    """
    pending.keep(slos, targets, windows)
    increments, probes, spans = windows.drain(now_seconds)
    for slo in slos:
        windows.events[slo.name]  # an SLO without events has empty buckets
    if spans:
        _count_spans([arrived for arrived in spans if arrived.span.target in targets], windows, pending)
    for increment in increments:
        if increment.key.source in ENGINES:
            _count_increment(increment, windows, pending)
            _count_uncovered(increment, windows, pending)
        elif increment.key.source in ROUTERS:
            _count_routed(increment, windows, pending)
    for result in probes:
        for slo in pending.concerned(result.target, result.model, "canary"):
            windows.events[slo.name].begin(result.planned_at_seconds)
            events = canary_events(slo, result, has_succeeded=result.target in windows.succeeded)
            pending.record(slo, windows, events.from_seconds, events.to_seconds, events.counts)
    if now_seconds is not None:
        pending.judge_slices(windows, now_seconds)
    if gone := windows.gone():
        pending.forget(gone)
    return increments


def _count_increment(increment: Increment, windows: Windows, pending: PendingBook) -> None:
    """One increment for every SLO it concerns: what SLOs of one question ask of it is read once."""
    since, until, outcomes = increment.from_seconds, increment.to_seconds, outcomes_of(increment)
    waiting, inside = (inside_at_end(increment, first_token=is_first) for is_first in (True, False))
    for asking in pending.asked(increment.key):
        of_question = asking[0][0]
        ended = ended_requests(of_question, increment, outcomes)
        found = waiting if waits_for_first_token(of_question) else inside
        for slo, balance in asking:
            counts = pending.once(slo, increment, engine_counts(slo, increment, ended, balance, found))
            windows.events[slo.name].begin(until)
            pending.record(slo, windows, since, until, counts)


def _count_spans(spans: list[ArrivedSpan], windows: Windows, pending: PendingBook) -> None:
    """Each finished request for every SLO it concerns. One that no SLO asks about is covered all the same.

    A model is called as on the target's newest page, which the balance is kept with; "" where that does not say.
    """
    models = {target: _models_of(target, windows) for target in {arrived.span.target for arrived in spans}}
    for at_seconds, span in spans:
        served = models[span.target]
        model = next(iter(served)) if len(served) == 1 else span.model if span.model in served else ""
        ended = _ended_at(span.end_at_seconds, at_seconds)
        pending.spans.setdefault((span.target, model), SpanBalance()).take_span(ended)
        for slo in pending.concerned(span.target, model, "span"):
            counts = span_counts(slo, span)
            windows.events[slo.name].begin(ended)
            pending.record(slo, windows, ended, ended, counts)


def _models_of(target: str, windows: Windows) -> set[str]:
    """Those on its newest page; after a restart of ours, before the first page, those that are remembered."""
    now = {increment.key.model for increment in windows.on_page(target)}
    return now or {key.model for key in windows.raw if key.target == target}


def _ended_at(told_seconds: float | None, arrived_seconds: float) -> float:
    """When the request ended, by the server's clock where that can be true."""
    if told_seconds is None or not arrived_seconds - LONGEST_ON_ITS_WAY_SECONDS <= told_seconds <= arrived_seconds:
        return arrived_seconds
    return told_seconds


def _count_uncovered(increment: Increment, windows: Windows, pending: PendingBook) -> None:
    """Requests that ended and sent no span are undecided events of the SLOs that count from spans."""
    key = increment.key
    ended = [n for (signal, _), n in increment.counters.items() if signal == "requests_finished_total"]
    if not ended:
        return
    balance = pending.spans.setdefault((key.target, key.model), SpanBalance())
    stretches = balance.finish(increment.from_seconds, increment.to_seconds, sum(ended))
    for slo in pending.concerned(key.target, key.model, "span"):
        windows.events[slo.name].begin(increment.to_seconds)
        for stretch in stretches:
            unknown = Counts(undecided=stretch.finished)
            pending.record(slo, windows, stretch.from_seconds, stretch.to_seconds, unknown)


def _count_routed(increment: Increment, windows: Windows, pending: PendingBook) -> None:
    """One router's increment, for every SLO that counts by routers."""
    key = increment.key
    for slo in pending.concerned(key.target, key.model, "router"):
        counts = pending.routers.count(slo, increment)
        windows.events[slo.name].begin(increment.to_seconds)
        pending.record(slo, windows, increment.from_seconds, increment.to_seconds, counts)


def concerns(slo: Slo, facts: TargetFacts | None, model: str) -> bool:
    """Whether an SLO counts what this target does. A target the plan does not know (it vanished) counts for none."""
    if facts is None:
        return False
    if facts.service is not None and facts.service != slo.service:
        return False
    if any(facts.labels.get(name) != value for name, value in slo.target_labels):
        return False
    if slo.model is not None and slo.model != (model or facts.model):
        return False
    return slo.role is None or slo.role == facts.role
