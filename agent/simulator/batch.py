"""One run in virtual time: drive a fleet to its end, record what an agent would have read, report what clients saw."""

from dataclasses import dataclass, field

from agent.simulator.ask import Sequence
from agent.simulator.client_report import client_report
from agent.simulator.recorder import Recorder
from agent.simulator.scenario import Stage
from agent.simulator.seeds import stream
from agent.simulator.telemetry import GapLog

READ_EVERY_SECONDS = 1.0  # as the recordings in data/h200
SETTLE_SECONDS = 2.0  # an agent still looks a moment after the last answer


@dataclass(slots=True)
class Run:
    """A run under way: who has ended, and every gap between tokens."""

    start_seconds: float
    ended: list[Sequence] = field(default_factory=list)
    gaps: GapLog = field(default_factory=GapLog)

    def drive(self, stage: Stage, *, requests: int | None, duration_seconds: float, recorder: Recorder | None) -> None:
        """Go on until so many requests have ended, or for so long; with a recorder, second by second."""
        fleet, at_seconds = stage.fleet, self.start_seconds
        end_seconds = self.start_seconds + duration_seconds
        pause_seconds = READ_EVERY_SECONDS if recorder else 30.0
        if recorder:
            recorder.record(fleet, at_seconds)
        while at_seconds < end_seconds:
            if requests is not None and len(self.ended) >= requests:
                end_seconds = min(end_seconds, at_seconds + (SETTLE_SECONDS if recorder else 0.0))
                requests = None
                continue
            at_seconds = min(at_seconds + pause_seconds, end_seconds)
            fleet.settle(at_seconds)
            if recorder:
                recorder.record(fleet, at_seconds)

    def report(self, seed: int, *, concurrency: int | None, rate: float | None) -> dict[str, float | int | str | None]:
        """What the clients of this run measured."""
        stamped = self.gaps.as_stamped(stream(seed, "stamps"))
        return client_report(self.ended, stamped, self.start_seconds, concurrency=concurrency, rate=rate)
