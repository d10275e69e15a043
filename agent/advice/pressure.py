"""What presses on a group's engines: the queue, the batch, the KV cache, as read over some minutes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from agent.advice.rehearsal import Load
from agent.increment import Increment
from agent.signals.sums import add_up

LEAST_READINGS = 12
NEARLY = 0.97  # of the largest batch: one that ended in this step has left it
FULL_RATIO = 0.95  # of the KV blocks: the next request or token finds no room


@dataclass(frozen=True, slots=True)
class Pressure:
    """Of one engine, all readings of all engines together.

    `queued_ratio` is the part of the readings in which a request waited for room (not for KV from elsewhere);
    `full_ratio` that with a full KV cache. `most_running` is the largest batch, `at_most_ratio` the part of the
    readings with a queue in which the batch was (nearly) that large. `preemptions` is a count of all engines,
    None where no page has it.
    """

    readings: int
    queued_ratio: float
    mean_waiting: float
    mean_running: float
    most_running: float
    at_most_ratio: float
    full_ratio: float
    most_kv_ratio: float
    preemptions: float | None

    @property
    def users(self) -> float:
        """Requests inside one engine, running or waiting: as many users at once ask for them."""
        return self.mean_running + self.mean_waiting


def pressure(increments: Iterable[Increment]) -> Pressure | None:
    """None where there are too few readings, or they do not tell the batch, the queue and the KV cache."""
    ours = [i for i in increments if i.key.source == "vllm"]
    rows = [row for i in ours if (row := _row(i)) is not None]
    if len(rows) < LEAST_READINGS:
        return None
    running, waiting, kv = zip(*rows, strict=True)
    most = max(running)
    queued = [batch for batch, queue, _ in rows if queue > 0]
    return Pressure(
        readings=len(rows),
        queued_ratio=len(queued) / len(rows),
        mean_waiting=sum(waiting) / len(rows),
        mean_running=sum(running) / len(rows),
        most_running=most,
        at_most_ratio=share([batch >= NEARLY * most for batch in queued]),
        full_ratio=share([usage >= FULL_RATIO for usage in kv]),
        most_kv_ratio=max(kv),
        preemptions=add_up(ours).counter("preemptions_total"),
    )


def asked_for(load: Load, felt: Pressure) -> Load:
    """The same requests, as those inside an engine would ask for them if none had to wait outside the batch."""
    return replace(load, concurrency=max(1, round(felt.users)), rate=None, routed_over=1)


def _row(increment: Increment) -> tuple[float, float, float] | None:
    """Batch, queue for room, KV usage at its end."""
    gauges = increment.gauges
    waiting = gauges.get(("requests_waiting_by_reason", "capacity"), gauges.get(("requests_waiting", "")))
    running, kv = gauges.get(("requests_running", "")), gauges.get(("kv_usage_ratio", ""))
    return None if running is None or waiting is None or kv is None else (running, waiting, kv)


def share(rows: Sequence[bool]) -> float:
    """The part that is true; 0 of none."""
    return sum(rows) / len(rows) if rows else 0.0
