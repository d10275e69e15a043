"""A stretch of a recording: which part is asked about, and the windows that its readings leave."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.windows import Windows
from probes.discovery.file import Found
from probes.recording import EntryReader, read_entries, target_in
from probes.sample import ProbeResult
from probes.spans.result import SpanResult


@dataclass(frozen=True, slots=True)
class Stretch:
    """Which part of a recording is asked about; None is its beginning or end, or all targets."""

    from_seconds: float | None = None
    to_seconds: float | None = None
    target: str | None = None


class EmptyStretchError(ValueError):
    """The stretch holds no readings; the text says what the recording has."""


@dataclass(slots=True)
class Recorded:
    """What a whole recording holds, whatever the stretch."""

    first_seconds: float = math.inf
    last_seconds: float = -math.inf
    targets: set[str] = field(default_factory=set)
    found: dict[str, Found] = field(default_factory=dict)  # what it tells of its targets
    spans: list[tuple[float, SpanResult]] = field(default_factory=list)  # when each came; those up to the stretch's end


def read_stretch(recording: Path, stretch: Stretch) -> tuple[Windows, Recorded]:
    """The windows at the end of the stretch, with everything before it, and what the recording holds.

    Raises RecordingError for a bad file, EmptyStretchError for one without entries.
    """
    windows, reader, recorded = Windows(keep_seconds=math.inf), EntryReader(), Recorded()
    for entry in read_entries(recording):
        recorded.first_seconds = min(recorded.first_seconds, entry.at_seconds)
        recorded.last_seconds = max(recorded.last_seconds, entry.at_seconds)
        recorded.targets.add(entry.target)
        if stretch.to_seconds is not None and entry.at_seconds > stretch.to_seconds:
            continue
        if (found := target_in(entry)) is not None:
            recorded.found[entry.target] = found
        seen = reader.read(entry)
        if isinstance(seen, ProbeResult):
            for target, sent in seen.sent_by_target().items():
                windows.own.end(target, sent)
            windows.take_probe(seen)
        elif isinstance(seen, SpanResult):
            recorded.spans.append((entry.at_seconds, seen))
        elif seen is not None:
            windows.take(seen)
    windows.drain()  # what is ours on each page is looked for when all is read
    if not recorded.targets:
        raise EmptyStretchError(f"{recording}: holds no entries.")
    return windows, recorded


def names_in(windows: Windows, recorded: Recorded, target: str | None, start: float, end: float) -> Sequence[str]:
    """The asked targets that the windows know. Raises EmptyStretchError when nothing of them lies in the stretch."""
    if target is not None and target not in recorded.targets:
        raise EmptyStretchError(
            f"no target is called {target}; the recording has {', '.join(sorted(recorded.targets))}."
        )
    told = {span.target for _, span in recorded.spans}
    every = sorted({key.target for key in windows.increments} | set(windows.probes) | told)
    names = [name for name in every if target in (None, name)]
    probed = any(start < result.at_seconds <= end for name in names for result in windows.probes.get(name, ()))
    if not probed and not any(True for _ in windows.between(start, end, names)):
        if start <= recorded.first_seconds and end >= recorded.last_seconds:
            raise EmptyStretchError("in the whole recording no target that is asked about answered once.")
        span = f"from {recorded.first_seconds:.1f} to {recorded.last_seconds:.1f}"
        raise EmptyStretchError(f"nothing was read between {start:.1f} and {end:.1f}; the recording has {span}.")
    return names
