"""What the agent reads, written to a recording for as long as its file takes it."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent.config_watching import Target
from agent.planning import found_of
from probes.recording import RecordingWriter
from probes.sample import ProbeResult, Reading
from probes.spans.result import SpanResult

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Tape:
    """A recording that cannot go on ends; `trouble` says why, watching goes on. Without a writer nothing is kept."""

    writer: RecordingWriter | None
    trouble: str = ""
    _told: dict[str, Target] = field(default_factory=dict)

    def keep_page(self, target: Target, reading: Reading, body: str) -> None:
        """A look at a page; what is known of the target comes before its first one, and again when that changes."""
        if self._told.get(target.name) != target:
            self._told[target.name] = target
            self._keep(lambda writer: writer.write_target(reading.at_seconds, found_of(target)))
        self._keep(lambda writer: writer.write_scrape(reading, body))

    def keep_gpu(self, reading: Reading, body: dict[str, object]) -> None:
        """A look at a GPU that told something."""
        self._keep(lambda writer: writer.write_gpu(reading.at_seconds, reading.target, body))

    def keep_probe(self, result: ProbeResult) -> None:
        """A canary's result."""
        self._keep(lambda writer: writer.write_probe(result))

    def keep_spans(self, at_seconds: float, spans: Sequence[SpanResult]) -> None:
        """Finished requests."""
        self._keep(lambda writer: writer.write_spans(at_seconds, spans))

    def _keep(self, write: Callable[[RecordingWriter], None]) -> None:
        if self.writer is None:
            return
        try:
            write(self.writer)
        except OSError as error:
            self.writer, self.trouble = None, error.strerror or type(error).__name__
            log.error("recording stopped reason=%r", self.trouble)  # noqa: TRY400  the reason is all there is
