"""`report`: signals over exactly one stretch of a recording, by the same windows and the same arithmetic as live."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.model import Explanation
from agent.signals.model import Signals
from agent.signals.post_time import post_time_explanation
from agent.signals.read import Question, read_signals
from agent.signals.roles import roles_of
from agent.signals.sources import with_sources
from agent.span_log import SpanLog
from agent.stretch import Recorded, Stretch, names_in, read_stretch
from agent.windows import Windows
from probes.systems import ENGINES


@dataclass(frozen=True, slots=True)
class Report:
    """Signals per target and of all together over [from_seconds, to_seconds]."""

    from_seconds: float
    to_seconds: float
    targets: dict[str, Signals]
    total: Signals
    explanations: tuple[Explanation, ...] = ()


def report(
    recording: Path, stretch: Stretch, question: Question, dollars_per_second: Mapping[str, float] | float | None = None
) -> Report:
    """The report. Raises RecordingError for a bad file, EmptyStretchError when nothing lies in the stretch.

    A counter's rise is taken from the last reading at or before `from` to the last at or before `to`.
    `dollars_per_second` is by target, or one price of every GPU (an engine target counts as one GPU); None: unknown.
    """
    windows, recorded = read_stretch(recording, stretch)
    start = recorded.first_seconds if stretch.from_seconds is None else stretch.from_seconds
    end = recorded.last_seconds if stretch.to_seconds is None else stretch.to_seconds
    spans = _spans(recorded, question, start, end)
    names = names_in(windows, recorded, stretch.target, start, end)
    price = dollars_per_second
    parts = roles_of(windows, windows.targets)
    question = replace(question, roles={**{name: part.role for name, part in parts.items()}, **question.roles})

    def signals(of: Sequence[str]) -> Signals:
        found = read_signals(windows, start, end, of, _priced(question, windows, of, price))
        return with_sources(spans.add_to(found, -math.inf, math.inf, of))

    found = [post_time_explanation(windows.between(start, end, [name])) for name in names]
    explanations = tuple(explanation for explanation in found if explanation is not None)
    return Report(start, end, {name: signals([name]) for name in names}, signals(names), explanations)


def _priced(
    question: Question, windows: Windows, names: Sequence[str], price: Mapping[str, float] | float | None
) -> Question:
    """The question with what the engines among these targets cost; unknown unless each has a price."""
    engines = [name for name in names if (log := windows.targets.get(name)) and log.source in ENGINES]
    if price is None or not engines:
        return question
    prices = [price if isinstance(price, float) else price.get(name) for name in engines]
    known = [p for p in prices if p is not None]
    others = 0.0 if isinstance(price, float) else sum(price.get(name, 0.0) for name in names if name not in engines)
    return replace(question, dollars_per_second=sum(known) + others) if len(known) == len(engines) else question


def _spans(recorded: Recorded, question: Question, start: float, end: float) -> SpanLog:
    """The spans of requests that ended in (start, end]. Those that came after `end` are not known yet."""
    log = SpanLog(keep_seconds=math.inf)
    log.is_listening = bool(recorded.spans)
    for arrived, span in recorded.spans:
        ended = arrived if span.end_at_seconds is None else min(span.end_at_seconds, arrived)
        if start < ended <= end:
            log.take([span], question.goodput, ended)
    return log
