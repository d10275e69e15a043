"""`replay`: what was seen, through the same tick in virtual time; alerts and advice as they would have come."""

import math
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from agent.config import Config
from agent.model import Effects
from agent.plan import Plan
from agent.planning import all_targets, make_plan
from agent.tick import Memory, tick
from probes.discovery.file import Found
from probes.prometheus.history import Piece, PrometheusHistory
from probes.recording import PAGE_SOURCES, EntryReader, RecordingError, read_entries, target_in
from probes.sample import ProbeResult, Reading
from probes.spans.result import SpanResult


@dataclass(slots=True)
class Course:
    """Virtual time: what was seen goes in by order of time, the effects of each tick that changed something out.

    Ticks lie `tick_seconds` apart from the first look on. Targets that the config does not name are watched as the
    recording tells of them, else as aggregated replicas, from when they are first seen. `last` is the newest tick's.
    """

    config: Config
    last: Effects | None = None
    ticks: int = 0
    _memory: Memory = field(default_factory=Memory)
    _found: dict[str, Found] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _plan: Plan = field(default_factory=Plan)
    _due: float = math.nan

    def __post_init__(self) -> None:
        self._plan = make_plan(self.config, all_targets(self.config, ()))

    def go_to(self, at_seconds: float) -> Iterator[Effects]:
        """The ticks that are due before this moment."""
        if math.isnan(self._due):
            self._due = at_seconds + self.config.tick_seconds
        while self._due < at_seconds:
            yield from self._tick()

    def take(self, seen: Reading | ProbeResult | SpanResult, at_seconds: float) -> None:
        """Something that was seen, and when it was told; it is looked at in the next tick."""
        windows = self._memory.windows
        if isinstance(seen, ProbeResult):
            if self.config.subtract_canaries:
                for target, sent in seen.sent_by_target().items():
                    windows.own.end(target, sent)
            windows.take_probe(seen)
            return
        if isinstance(seen, SpanResult):
            windows.take_spans([seen], at_seconds)
            return
        self._seen.add(seen.target)
        if seen.source in PAGE_SOURCES and seen.target not in self._plan.targets:
            self.watch(Found(seen.target, {"name": seen.target, "kind": seen.source}))
        windows.take(seen)

    def watch(self, found: Found) -> None:
        """A target that the config does not name."""
        self._found[found.labels["name"]] = found
        self._plan = make_plan(self.config, all_targets(self.config, self._found.values()))

    def unseen(self) -> list[str]:
        """Targets of the config at which nobody looked so far: of another recording, or mistyped."""
        return [target.name for target in self.config.targets if target.name not in self._seen]

    def end(self) -> Iterator[Effects]:
        """The tick after all that was seen."""
        if not math.isnan(self._due):
            yield from self._tick()

    def _tick(self) -> Iterator[Effects]:
        effects = tick(self._plan, self._memory, self._due)
        self._due += self.config.tick_seconds
        self.ticks += 1
        self.last = effects
        if effects.changed_alerts or effects.changed_recommendations:
            yield effects


@dataclass(slots=True)
class Replay:
    """One replay of a recording. Iterate `effects()`; afterwards `last` holds the final state.

    `on_entry` hears the time of every entry, unix seconds.
    """

    recording: Path
    config: Config
    on_entry: Callable[[float], None] = lambda _at: None
    course: Course = field(init=False)

    def __post_init__(self) -> None:
        self.course = Course(self.config)

    @property
    def last(self) -> Effects | None:
        """The newest tick's effects; None before the first."""
        return self.course.last

    @property
    def ticks(self) -> int:
        """How many evaluations there were."""
        return self.course.ticks

    def effects(self) -> Iterator[Effects]:
        """The effects of every tick that changed something. Raises RecordingError for a bad file."""
        reader = EntryReader()
        for entry in read_entries(self.recording):
            self.on_entry(entry.at_seconds)
            yield from self.course.go_to(entry.at_seconds)
            if (found := target_in(entry)) is not None:
                self._watch(found)
            elif (seen := reader.read(entry)) is not None:
                self.course.take(seen, entry.at_seconds)
        yield from self.course.end()

    def _watch(self, found: Found) -> None:
        try:
            self.course.watch(found)
        except ValidationError as error:
            name, mistake = found.labels["name"], error.errors()[0]["msg"]
            raise RecordingError(f"{self.recording}: the target {name!r} cannot be one: {mistake}.") from None


async def replay_history(
    history: PrometheusHistory, course: Course, start_seconds: float, end_seconds: float, step_seconds: float | None
) -> AsyncIterator[tuple[Piece, list[Effects]]]:
    """The same with what a Prometheus scraped in this stretch, piece by piece. Raises PrometheusError."""
    await history.look_around(start_seconds, end_seconds)
    for name, found in history.found.items():
        if name not in {target.name for target in course.config.targets}:
            course.watch(found)
    async for piece in history.pieces(start_seconds, end_seconds, step_seconds):
        effects: list[Effects] = []
        for reading in piece.readings:
            effects += course.go_to(reading.at_seconds)
            course.take(reading, reading.at_seconds)
        yield piece, effects
    yield Piece(end_seconds, end_seconds, ()), list(course.end())
