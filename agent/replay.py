"""`replay`: a recording through the same tick in virtual time; alerts and recommendations as they would have come."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.config import Config
from agent.model import Effects
from agent.planning import all_targets, make_plan
from agent.tick import Memory, tick
from probes.discovery.file import Found
from probes.recording import PAGE_SOURCES, EntryReader, read_entries
from probes.sample import ProbeResult
from probes.spans.result import SpanResult


@dataclass(slots=True)
class Replay:
    """One replay. Iterate `effects()`; afterwards `last` holds the final state."""

    recording: Path
    config: Config
    last: Effects | None = None
    ticks: int = 0

    def effects(self) -> Iterator[Effects]:
        """The effects of every tick that changed something. Raises RecordingError for a bad file.

        Ticks lie `tick_seconds` apart from the first entry on. Targets of the recording that the config does not name
        are watched as aggregated vLLM replicas, from when they are first seen.
        """
        memory, reader = Memory(), EntryReader()
        found: dict[str, Found] = {}
        plan = make_plan(self.config, all_targets(self.config, ()))
        due = math.nan
        for entry in read_entries(self.recording):
            due = entry.at_seconds + self.config.tick_seconds if math.isnan(due) else due
            while due < entry.at_seconds:
                yield from self._tick(tick(plan, memory, due))
                due += self.config.tick_seconds
            seen = reader.read(entry)
            if isinstance(seen, ProbeResult):
                if self.config.subtract_canaries:
                    memory.windows.own.end(seen.target, seen.sent)
                memory.windows.take_probe(seen)
            elif isinstance(seen, SpanResult):
                memory.windows.take_spans([seen], entry.at_seconds)
            elif seen is not None:
                if seen.source in PAGE_SOURCES and entry.target not in plan.targets:
                    found[entry.target] = Found(entry.target, {"name": entry.target, "kind": seen.source})
                    plan = make_plan(self.config, all_targets(self.config, found.values()))
                memory.windows.take(seen)
        if not math.isnan(due):
            yield from self._tick(tick(plan, memory, due))

    def _tick(self, effects: Effects) -> Iterator[Effects]:
        self.ticks += 1
        self.last = effects
        if effects.changed_alerts or effects.changed_recommendations:
            yield effects
