"""`suggest`: SLOs that a history kept, the presets beside them, and what a step tighter would have cost.

Two passes. The first adds everything up and picks promises on the history's own bucket edges; the second replays the
same history with all of them, through the very evaluation that would page.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any

from agent.config import Config
from agent.model import Effects, SloStatus
from agent.presets import preset_slos, presets
from agent.stats.buckets import Buckets, merged
from agent.windows import Windows
from probes.canary.outcomes import is_bad
from probes.sample import ProbeResult, Reading

LATENCIES = {"ttft": "ttft_seconds", "tpot": "tpot_seconds", "e2e": "e2e_seconds"}
LATENCY_OBJECTIVES = (0.99, 0.95)
ANSWER_OBJECTIVES = (0.999, 0.995, 0.99, 0.95)
ROOM_RATIO = 0.8  # of the budget: a promise that a history only just kept is not kept next month
FEWEST_BAD = 3.0  # an objective that allows fewer bad events than that in the whole history says nothing about it
FAILED_REASONS = ("error", "abort")
STALL_SECONDS = 1.0


@dataclass(slots=True)
class History:
    """The first pass: what was seen, added up."""

    windows: Windows = field(default_factory=lambda: Windows(keep_seconds=60.0))
    from_seconds: float = inf
    to_seconds: float = -inf
    finished: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    canaries: int = 0
    canaries_failed: int = 0

    def take(self, seen: Reading | ProbeResult) -> None:
        """One look at a target, or one canary."""
        self.from_seconds = min(self.from_seconds, seen.at_seconds)
        self.to_seconds = max(self.to_seconds, seen.at_seconds)
        if isinstance(seen, Reading):
            self.windows.take(seen)
        elif seen.feels_like_a_user:
            self.windows.take_probe(seen)
        increments, probes, _ = self.windows.drain()
        for increment in increments:
            for (signal, reason), rise in increment.counters.items():
                if signal == "requests_finished_total":
                    self.finished[reason] += rise
        for probe in probes:
            failed = is_bad(probe.outcome, has_succeeded=probe.target in self.windows.succeeded)
            self.canaries += failed is not None
            self.canaries_failed += bool(failed)

    @property
    def seconds(self) -> float:
        return max(0.0, self.to_seconds - self.from_seconds)

    def latency(self, signal: str) -> Buckets | None:
        """Every observation of every engine, at the edges that all of them have."""
        return merged(b for (key, name), b in self.windows.totals.items() if name == signal and key.source == "vllm")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A promise to try: the SLO as the config writes it. `origin` is "kept", "tighter" or a preset's name; a tighter
    one names the kept one that it is a step beyond.
    """

    origin: str
    slo: Mapping[str, Any]
    beyond: str = ""


@dataclass(slots=True)
class Trial:
    """How a candidate fared in the replay."""

    candidate: Candidate
    pages: int = 0
    tickets: int = 0
    status: SloStatus | None = None

    @property
    def kept_ratio(self) -> float | None:
        """Good events over all; undecided ones count as the SLO says. None without events."""
        if self.status is None or self.status.budget.counts.total <= 0:
            return None
        counts, slo = self.status.budget.counts, self.status.slo
        bad = counts.bad + (counts.undecided if slo.undecided == "bad" else 0.0)
        return 1.0 - bad / counts.total


def candidates(history: History) -> list[Candidate]:
    """What this history could have kept, a step tighter each, and every preset that it has sources for."""
    found = [*_latencies(history), *_answers(history), *_canaries(history)]
    return found + [
        Candidate(name, {**slo, "name": f"preset-{slo['name']}", "service": "llm"})
        for name in presets()
        for slo in preset_slos(name)
        if history.canaries or (slo.get("source") != "canary" and slo["sli"] != "stall")
    ]


def trial_config(tried: list[Candidate], tick_seconds: float) -> Config:
    """The config that tries them all."""
    return Config.model_validate(
        {"tick_seconds": tick_seconds, "canaries": [{"kind": "chat"}], "slos": [dict(one.slo) for one in tried]}
    )


class Trials:
    """The second pass: hears the effects of every tick of a replay."""

    def __init__(self, tried: list[Candidate]) -> None:
        self.by_name = {one.slo["name"]: Trial(one) for one in tried}

    def hear(self, effects: Effects) -> None:
        """Alerts that began."""
        for alert in effects.changed_alerts:
            labels = dict(alert.labels)
            trial = self.by_name.get(labels.get("slo", ""))
            if trial is not None and alert.is_firing and alert.name == "SLOBurnRate":
                trial.pages += labels["severity"] == "page"
                trial.tickets += labels["severity"] == "ticket"

    def end(self, last: Effects | None) -> list[Trial]:
        """All of them, with where they stood at the end."""
        for status in last.snapshot.slos if last else ():
            self.by_name[status.slo.name].status = status
        return list(self.by_name.values())


def proposed(trials: list[Trial]) -> list[Trial]:
    """Of each kind of promise the one that paged least; of several, that with the highest objective."""
    kinds: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        if trial.candidate.origin == "kept":
            slo = trial.candidate.slo
            kinds.setdefault((slo["sli"], slo.get("source", "")), []).append(trial)
    return [
        min(kind, key=lambda t: (t.pages, t.tickets, -t.candidate.slo["objective_ratio"])) for kind in kinds.values()
    ]


def _latencies(history: History) -> Iterator[Candidate]:
    for sli, signal in LATENCIES.items():
        buckets = history.latency(signal)
        if buckets is None or buckets.count <= 0:
            continue
        above = [sum(buckets.counts[place + 1 :]) for place in range(len(buckets.edges))]
        for objective in LATENCY_OBJECTIVES:
            allowed = ROOM_RATIO * (1 - objective) * buckets.count
            kept = next((place for place, bad in enumerate(above) if bad <= allowed), None)
            if allowed < FEWEST_BAD or kept is None or not isfinite(buckets.edges[kept]):
                continue
            name = f"{sli}-{100 * objective:g}"
            slo = {"name": name, "sli": sli, "objective_ratio": objective}
            yield Candidate("kept", {**slo, "threshold_seconds": buckets.edges[kept]})
            if kept:
                tighter = {**slo, "name": f"{name}-tighter", "threshold_seconds": buckets.edges[kept - 1]}
                yield Candidate("tighter", tighter, name)


def _answers(history: History) -> Iterator[Candidate]:
    """Users' requests that end well, within twice the longest that any took."""
    total, failed = sum(history.finished.values()), sum(history.finished[why] for why in FAILED_REASONS)
    buckets = history.latency("e2e_seconds")
    if not total or buckets is None or buckets.count <= 0:
        return
    longest = max(edge for edge, count in zip(buckets.edges, buckets.counts, strict=True) if count > 0)
    finite = [edge for edge in buckets.edges if isfinite(edge)]
    late = next((edge for edge in finite if edge >= 2 * longest), finite[-1])
    yield from _shares("availability", failed, total, {"sli": "availability", "threshold_seconds": late})


def _canaries(history: History) -> Iterator[Candidate]:
    if not history.canaries:
        return
    slo = {"sli": "availability", "source": "canary"}
    yield from _shares("canary", history.canaries_failed, history.canaries, slo)
    stall = {"name": "stall-99", "sli": "stall", "source": "canary", "objective_ratio": 0.99}
    if ROOM_RATIO * 0.01 * history.canaries >= FEWEST_BAD:
        yield Candidate("kept", {**stall, "threshold_seconds": STALL_SECONDS})


def _shares(word: str, bad: float, total: float, slo: Mapping[str, Any]) -> Iterator[Candidate]:
    judged = [o for o in ANSWER_OBJECTIVES if ROOM_RATIO * (1 - o) * total >= FEWEST_BAD]
    kept = next((place for place, o in enumerate(judged) if bad <= ROOM_RATIO * (1 - o) * total), None)
    if kept is None:
        return
    name = f"{word}-{100 * judged[kept]:g}"
    yield Candidate("kept", {"name": name, **slo, "objective_ratio": judged[kept]})
    if kept:
        yield Candidate("tighter", {"name": f"{name}-tighter", **slo, "objective_ratio": judged[kept - 1]}, name)
