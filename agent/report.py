"""`report`: signals over exactly one stretch of a recording, by the same windows and the same arithmetic as live."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.model import Signals
from agent.signals.read import Question, read_signals
from agent.span_log import SpanLog
from agent.windows import Windows
from probes.recording import EntryReader, read_entries
from probes.sample import ProbeResult
from probes.spans.result import SpanResult
from probes.systems import ENGINES


@dataclass(frozen=True, slots=True)
class Stretch:
    """Which part of a recording is asked about; None is its beginning or end, or all targets."""

    from_seconds: float | None = None
    to_seconds: float | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Signals per target and of all together over [from_seconds, to_seconds]."""

    from_seconds: float
    to_seconds: float
    targets: dict[str, Signals]
    total: Signals


class EmptyStretchError(ValueError):
    """The stretch holds no readings; the text says what the recording has."""


def report(
    recording: Path, stretch: Stretch, question: Question, dollars_per_second: Mapping[str, float] | float | None = None
) -> Report:
    """The report. Raises RecordingError for a bad file, EmptyStretchError when nothing lies in the stretch.

    A counter's rise is taken from the last reading at or before `from` to the last at or before `to`.
    `dollars_per_second` is by target, or one price of every GPU (an engine target counts as one GPU); None: unknown.
    """
    windows, recorded = _read(recording, stretch)
    start = recorded.first_seconds if stretch.from_seconds is None else stretch.from_seconds
    end = recorded.last_seconds if stretch.to_seconds is None else stretch.to_seconds
    spans = _spans(recorded, question, start, end)
    names = _names(windows, recorded, stretch.target, start, end)
    price = dollars_per_second

    def signals(of: Sequence[str]) -> Signals:
        found = read_signals(windows, start, end, of, _priced(question, windows, of, price))
        return spans.add_to(found, -math.inf, math.inf, of)

    return Report(start, end, {name: signals([name]) for name in names}, signals(names))


def _priced(
    question: Question, windows: Windows, names: Sequence[str], price: Mapping[str, float] | float | None
) -> Question:
    """The question with what the engines among these targets cost; unknown unless each has a price."""
    engines = [name for name in names if (log := windows.targets.get(name)) and log.source in ENGINES]
    if price is None or not engines:
        return question
    prices = [price if isinstance(price, float) else price.get(name) for name in engines]
    known = [p for p in prices if p is not None]
    return replace(question, dollars_per_second=sum(known)) if len(known) == len(engines) else question


@dataclass(slots=True)
class _Recorded:
    """What a whole recording holds, whatever the stretch."""

    first_seconds: float = math.inf
    last_seconds: float = -math.inf
    targets: set[str] = field(default_factory=set)
    spans: list[tuple[float, SpanResult]] = field(default_factory=list)  # when each came; those up to the stretch's end


def _read(recording: Path, stretch: Stretch) -> tuple[Windows, _Recorded]:
    windows, reader, recorded = Windows(keep_seconds=math.inf), EntryReader(), _Recorded()
    for entry in read_entries(recording):
        recorded.first_seconds = min(recorded.first_seconds, entry.at_seconds)
        recorded.last_seconds = max(recorded.last_seconds, entry.at_seconds)
        recorded.targets.add(entry.target)
        if stretch.to_seconds is not None and entry.at_seconds > stretch.to_seconds:
            continue
        seen = reader.read(entry)
        if isinstance(seen, ProbeResult):
            if seen.feels_like_a_user:
                windows.take_probe(seen)
        elif isinstance(seen, SpanResult):
            recorded.spans.append((entry.at_seconds, seen))
        elif seen is not None:
            windows.take(seen)
    if not recorded.targets:
        raise EmptyStretchError(f"{recording}: holds no entries.")
    return windows, recorded


def _spans(recorded: _Recorded, question: Question, start: float, end: float) -> SpanLog:
    """The spans of requests that ended in (start, end]. Those that came after `end` are not known yet."""
    log = SpanLog(keep_seconds=math.inf)
    log.is_listening = bool(recorded.spans)
    for arrived, span in recorded.spans:
        ended = arrived if span.end_at_seconds is None else min(span.end_at_seconds, arrived)
        if start < ended <= end:
            log.take([span], question.goodput, ended)
    return log


def _names(windows: Windows, recorded: _Recorded, target: str | None, start: float, end: float) -> Sequence[str]:
    if target is not None and target not in recorded.targets:
        raise EmptyStretchError(
            f"no target is called {target}; the recording has {', '.join(sorted(recorded.targets))}."
        )
    told = {span.target for _, span in recorded.spans}
    every = sorted({key.target for key in windows.increments} | set(windows.probes) | told)
    names = [name for name in every if target in (None, name)]
    probed = any(start < result.at_seconds <= end for name in names for result in windows.probes.get(name, ()))
    if not probed and not any(True for _ in windows.between(start, end, names)):
        span = f"from {recorded.first_seconds:.1f} to {recorded.last_seconds:.1f}"
        raise EmptyStretchError(f"nothing was read between {start:.1f} and {end:.1f}; the recording has {span}.")
    return names
