"""Windows keep what probes saw: per engine, what happened between two readings, with the time it happened in."""

import math
import sys
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from agent.between_pages import Pages, by_engine, increment_between, is_of_an_earlier_process, restarted_engines
from agent.increment import COARSE_SECONDS, first_stretch, joined
from agent.increment import EngineKey as EngineKey  # noqa: PLC0414  here is where all the others look for them
from agent.increment import Increment as Increment  # noqa: PLC0414
from agent.own import Own, OwnBuckets
from agent.own_traffic import OwnTraffic
from agent.raw import Raw
from agent.stats.buckets import Buckets
from agent.stats.time_buckets import TimeBuckets
from agent.totals import Totals
from probes.page import MOST_ENGINES
from probes.sample import PageWarning, ProbeResult, Reading
from probes.spans.result import SpanResult
from probes.systems import ROUTERS

FINE_SECONDS = 360.0  # the newest five minutes stay as they were read: alerts, causes and advice look at them
KEEP_SECONDS = 3_900.0  # an hour's window, and what a late reading may still need
CLOCK_STEP_SECONDS = 30.0  # a reading so much older than the last one is no late one: the clock was set back
OTHER_PROCESS = (
    "the page is of another process than the one before; is this address a load balancer? "
    "Name each replica as a target of its own"
)


class ArrivedSpan(NamedTuple):
    """One finished request, and when its span came."""

    at_seconds: float
    span: SpanResult


@dataclass(slots=True)
class TargetLog:
    """The last looks at one target."""

    source: str
    first_attempt_at_seconds: float
    last_attempt: Reading
    last_ok: Reading | None = None
    model: str = ""
    signals: set[str] = field(default_factory=set)


class Windows:
    """All state that readings leave behind.

    `keep_seconds` is how long increments and canary results are kept, increments as they were read for `fine_seconds`
    and then joined; without an end to the one there is none to the other.
    """

    def __init__(self, keep_seconds: float = KEEP_SECONDS) -> None:
        self.keep_seconds = keep_seconds
        has_end = keep_seconds < math.inf
        self.fine_seconds, self.most_engines = (FINE_SECONDS, MOST_ENGINES) if has_end else (math.inf, sys.maxsize)
        self._joined: dict[EngineKey, int] = defaultdict(int)  # so many of the oldest increments are done with
        self.targets: dict[str, TargetLog] = {}
        self.increments: dict[EngineKey, deque[Increment]] = defaultdict(deque)
        self.probes: dict[str, deque[ProbeResult]] = defaultdict(deque)
        self.succeeded: set[str] = set()
        self.answered_at_seconds: dict[str, float] = {}  # of the newest canary that asked for a known answer
        self._totals = Totals()
        self.events: dict[str, TimeBuckets] = defaultdict(TimeBuckets)
        self.raw: dict[EngineKey, Raw] = {}
        self.own = OwnTraffic()
        self.own_totals: dict[tuple[EngineKey, str], OwnBuckets] = {}  # a part of `totals`
        self.restored_at_seconds: float | None = None  # until then nobody looked: silence before it means nothing
        self._fresh_increments: list[Increment] = []
        self._fresh_probes: list[ProbeResult] = []
        self.span_seen_seconds: dict[str, float] = {}  # when the last span of each target came
        self._fresh_spans: list[ArrivedSpan] = []
        self._gone: list[EngineKey] = []

    def take(self, reading: Reading) -> None:
        """Keep one look at one target. A reading not newer than the last one of that target is ignored, unless it is so
        much older that the clock was set back: then the target begins anew.
        """
        log = self.targets.get(reading.target)
        if log is None:
            log = TargetLog(reading.source, reading.at_seconds, reading)
            self.targets[reading.target] = log
        elif reading.at_seconds < log.last_attempt.at_seconds - CLOCK_STEP_SECONDS:
            self._begin_anew(log, reading)
        elif reading.at_seconds <= log.last_attempt.at_seconds:
            return
        before, log.last_attempt = log.last_ok, reading
        if reading.outcome != "ok":
            return
        if is_of_an_earlier_process(before, reading):
            log.last_attempt = replace(reading, outcome="other_process", detail=OTHER_PROCESS)
            return
        log.last_ok = reading
        engines = self._bounded(by_engine(reading), log)
        restarted = restarted_engines(self.raw, engines, before, reading)
        for key in restarted:
            self.raw.pop(key, None)  # nothing of the new process can be compared with the old one
        for key, raw in engines.items():
            log.model = _model_of(log, key)
            log.signals.update(raw.histograms, (signal for signal, _ in raw.counters))
            until = self.increments[key][-1].to_seconds if key in self.increments else None
            pages = Pages(before, reading, log.first_attempt_at_seconds, until)
            increment = increment_between(self.raw.get(key), raw, pages, key, restarted=key in restarted)
            self.raw.setdefault(key, Raw()).update(raw, increment.histograms)
            self._keep(increment)
        self._drop_engines_gone(reading, engines)

    def take_probe(self, result: ProbeResult) -> None:
        """Keep one canary result. From its first success on, a target is known to serve what canaries ask for.

        Kinds that ask what no user asks explain, and are not kept; what an answer says is an event of its own.
        """
        if result.kind == "correctness":
            self.answered_at_seconds[result.target] = result.at_seconds
            self._fresh_probes.append(result)
        if not result.feels_like_a_user:
            return
        results = self.probes[result.target]
        results.append(result)
        if result.is_ok:
            self.succeeded.add(result.target)
        self._fresh_probes.append(result)
        while results and results[0].at_seconds < result.at_seconds - self.keep_seconds:
            results.popleft()

    def take_spans(self, spans: Iterable[SpanResult], at_seconds: float) -> None:
        """Keep finished requests until the next `drain`; each span's `target` is one that is watched."""
        for span in spans:
            self.span_seen_seconds[span.target] = at_seconds
            self._fresh_spans.append(ArrivedSpan(at_seconds, span))

    def has(self, target: str, signal: str) -> bool:
        """Whether any page of this target had this histogram or counter."""
        log = self.targets.get(target)
        return log is not None and signal in log.signals

    def on_page(self, target: str) -> list[Increment]:
        """The newest increment of each engine on the newest page; those that left it say nothing of now."""
        log = self.targets.get(target)
        if log is None or log.last_ok is None:
            return []
        newest = (kept[-1] for key, kept in self.increments.items() if key.target == target and kept)
        return [increment for increment in newest if increment.to_seconds >= log.last_ok.at_seconds]

    def forget(self, target: str) -> None:
        """A target that is no longer watched steers nothing; what it did stays counted."""
        self.targets.pop(target, None)
        self.probes.pop(target, None)
        self.succeeded.discard(target)
        self.answered_at_seconds.pop(target, None)
        self.span_seen_seconds.pop(target, None)
        self.own.forget(target)
        self._drop([key for key in self.increments if key.target == target])

    def drain(self, now_seconds: float | None = None) -> tuple[list[Increment], list[ProbeResult], list[ArrivedSpan]]:
        """What came in since the last call, each increment, canary result and span exactly once.

        At `now_seconds` an increment that may hold a canary without a result yet is kept back for a while; without it
        nothing is.
        """
        ready: dict[str, list[Increment]] = defaultdict(list)
        held: list[Increment] = []
        waiting: set[str] = set()
        newest = {increment.key.target: increment.to_seconds for increment in self._fresh_increments}
        for increment in self._fresh_increments:
            target = increment.key.target
            is_last = increment.to_seconds == newest[target]
            if now_seconds is not None and self.own.may_be_in(target, increment, now_seconds, is_last=is_last):
                waiting.add(target)
            if target in waiting:
                held.append(increment)
            else:
                ready[target].append(increment)
        told: dict[int, Increment] = {}
        for target, increments in ready.items():
            found = self.own.find(target, increments, are_last=target not in waiting)
            self._tell_own(increments, found, told)
        kept_back = {id(increment) for increment in held}
        counted = [told.get(id(i), i) for i in self._fresh_increments if id(i) not in kept_back]
        fresh = counted, self._fresh_probes, self._fresh_spans
        self._fresh_increments, self._fresh_probes, self._fresh_spans = held, [], []
        return fresh

    def settled(self, start_seconds: float, end_seconds: float, targets: Iterable[str]) -> Iterator[Increment]:
        """As `between`, without the newest ones of which it is not known yet what of them is our canaries'."""
        unknown = {id(i) for i in self._fresh_increments if self.own.knows(i.key.target)}
        return (i for i in self.between(start_seconds, end_seconds, targets) if id(i) not in unknown)

    def _tell_own(self, increments: list[Increment], found: list[Own | None], told: dict[int, Increment]) -> None:
        """Remember what our canaries have in these increments; `told` gets the increments that say so."""
        for before, own in zip(increments, found, strict=True):
            if own is None:
                continue
            after = told[id(before)] = replace(before, own=own)
            kept = self.increments.get(after.key, deque())
            place = next((n for n in range(len(kept) - 1, -1, -1) if kept[n] is before), None)
            if place is not None:
                kept[place] = after
            for signal, ours in own.histograms.items():
                known = self.own_totals.get((after.key, signal))
                is_same = known is not None and known.high.edges == ours.high.edges
                self.own_totals[after.key, signal] = known + ours if known is not None and is_same else ours

    @property
    def totals(self) -> Mapping[tuple[EngineKey, str], Buckets]:
        """What each engine has observed since it is watched, by signal."""
        return self._totals.all()

    def gone(self) -> list[EngineKey]:
        """Engines that were forgotten since the last call."""
        gone, self._gone = self._gone, []
        return gone

    def between(self, start_seconds: float, end_seconds: float, targets: Iterable[str]) -> Iterator[Increment]:
        """Increments of these targets that end in (start_seconds, end_seconds]."""
        wanted = set(targets)
        for key, increments in self.increments.items():
            if key.target in wanted:
                newest_first = []
                for increment in reversed(increments):
                    if increment.to_seconds <= start_seconds:
                        break
                    newest_first.append(increment)
                yield from (i for i in reversed(newest_first) if i.to_seconds <= end_seconds)

    def _begin_anew(self, log: TargetLog, reading: Reading) -> None:
        """What was read by a clock that was ahead cannot be compared with what comes now; what it counted stays."""
        log.first_attempt_at_seconds, log.last_ok = reading.at_seconds, None
        for key in [key for key in self.increments if key.target == reading.target]:
            self.raw.pop(key, None)
            self._joined.pop(key, None)
            kept = [i for i in self.increments[key] if i.to_seconds <= reading.at_seconds]
            if kept:
                self.increments[key] = deque(kept)
            else:
                del self.increments[key]

    def _keep(self, increment: Increment) -> None:
        kept = self.increments[increment.key]
        kept.append(increment)
        self._fresh_increments.append(increment)
        while kept and kept[0].to_seconds < increment.to_seconds - self.keep_seconds:
            kept.popleft()
            self._joined[increment.key] = max(0, self._joined[increment.key] - 1)
        self._join_older(increment.key, kept)
        self._totals.take(increment)

    def _join_older(self, key: EngineKey, kept: deque[Increment]) -> None:
        """Make few of the many increments that are older than `fine_seconds`, stretch by stretch, each when whole."""
        place, oldest_fine = self._joined[key], kept[-1].to_seconds - self.fine_seconds
        while kept[place].to_seconds < oldest_fine - COARSE_SECONDS:
            stretch = first_stretch(islice(kept, place, len(kept) - 1))
            if len(stretch) > 1:
                kept[place] = joined(stretch)
                for _ in stretch[1:]:
                    del kept[place + 1]
            place += 1
        self._joined[key] = place

    def _bounded(self, engines: Mapping[EngineKey, Raw], log: TargetLog) -> Mapping[EngineKey, Raw]:
        """At most `most_engines` of one page, those that are known already first; what is left out is told."""
        if len(engines) <= self.most_engines or log.last_ok is None:
            return engines
        words = f"{len(engines)} engines and models on one page; {self.most_engines} of them are watched"
        warnings = (*log.last_ok.warnings, PageWarning("too_many_engines", words))
        log.last_ok = log.last_attempt = replace(log.last_ok, warnings=warnings)
        return {key: engines[key] for key in sorted(engines, key=lambda key: key not in self.raw)[: self.most_engines]}

    def _drop_engines_gone(self, now: Reading, on_page: Collection[EngineKey]) -> None:
        """Engines that have not been on this target's page for as long as anything is kept, and of too many the first
        that went.
        """
        ours = sorted(
            (kept[-1].to_seconds, key)
            for key, kept in self.increments.items()
            if key.target == now.target and key not in on_page
        )
        surplus = max(0, len(ours) + len(on_page) - self.most_engines)
        oldest = now.at_seconds - self.keep_seconds
        self._drop([key for place, (seen, key) in enumerate(ours) if seen < oldest or place < surplus])

    def _drop(self, keys: Collection[EngineKey]) -> None:
        """Forget these engines; whoever keeps something of them is told by `gone`."""
        if not keys:
            return
        for key in keys:
            self.increments.pop(key, None)
            self.raw.pop(key, None)
            self._joined.pop(key, None)
        dropped = set(keys)
        self._totals.drop(dropped)
        self.own_totals = {place: total for place, total in self.own_totals.items() if place[0] not in dropped}
        self._gone.extend(keys)


def _model_of(log: TargetLog, key: EngineKey) -> str:
    """The newest one an engine names; of a router, which may tell of many, the first."""
    return (log.model or key.model) if log.source in ROUTERS else (key.model or log.model)
