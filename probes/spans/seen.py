"""Spans that came before: an exporter that missed our answer sends its batch again, and a request counts once."""

from collections.abc import Iterable
from typing import Final

from probes.spans.result import SpanResult

REMEMBERED: Final = 20_000  # a minute of 300 requests/s, the longest an exporter tries again; 4 MB


class SeenSpans:
    """The ids of the last `remembered` spans."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._ids: dict[str, None] = {}

    def fresh(self, spans: Iterable[SpanResult]) -> list[SpanResult]:
        """Those that were not here before, in order. A span without an id cannot be known again: it is fresh."""
        new = []
        for span in spans:
            if span.span_id in self._ids:
                continue
            new.append(span)
            if not span.span_id.strip("0"):
                continue
            self._ids[span.span_id] = None
            if len(self._ids) > self._remembered:
                del self._ids[next(iter(self._ids))]
        return new
