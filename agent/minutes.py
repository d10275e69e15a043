"""What an SLO counted in each minute of a recording: the history that `check` resamples."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from agent.config import Config
from agent.model import Counts, Slo
from agent.planning import all_targets, make_plan
from agent.sli.count import PendingBook, count_events
from agent.sli.slices import SETTLE_SECONDS
from agent.slo.burn import bad_events
from agent.stats.time_buckets import TimeBuckets
from agent.windows import Windows
from probes.discovery.file import Found
from probes.recording import PAGE_SOURCES, EntryReader, read_entries
from probes.sample import ProbeResult, Reading

MINUTE_SECONDS = 60.0
COUNT_EVERY_SECONDS = 60.0


def minutes_of(recording: Path, config: Config) -> Mapping[str, Sequence[tuple[float, float]]]:
    """(bad, all) of every whole minute, by SLO. Raises RecordingError for a bad file.

    Undecided events count as the SLO says. Targets that the config does not name are watched as vLLM replicas.
    """
    windows, pending, reader = Windows(), PendingBook(), EntryReader()
    found: dict[str, Found] = {}
    plan, due, last = make_plan(config, all_targets(config, ())), 0.0, 0.0
    first: float | None = None
    minutes: dict[str, Sequence[tuple[float, float]]] = {slo.name: [] for slo in plan.slos}
    for entry in read_entries(recording):
        seen = reader.read(entry)
        if isinstance(seen, ProbeResult):
            if seen.feels_like_a_user:
                windows.take_probe(seen)
        elif isinstance(seen, Reading):
            if seen.source in PAGE_SOURCES and entry.target not in plan.targets:
                found[entry.target] = Found(entry.target, {"name": entry.target, "kind": seen.source})
                plan = make_plan(config, all_targets(config, found.values()))
            windows.take(seen)
        first, last = entry.at_seconds if first is None else first, entry.at_seconds
        if entry.at_seconds >= due:
            count_events(plan.slos, plan.targets, windows, pending)
            due = entry.at_seconds + COUNT_EVERY_SECONDS
    count_events(plan.slos, plan.targets, windows, pending)
    pending.judge_slices(windows, last + SETTLE_SECONDS)
    if first is not None:
        minutes |= {slo.name: _minutes(slo, windows.events[slo.name], first, last) for slo in plan.slos}
    return minutes


def _minutes(slo: Slo, events: TimeBuckets, first: float, last: float) -> Sequence[tuple[float, float]]:
    edges = [first + MINUTE_SECONDS * place for place in range(int((last - first) / MINUTE_SECONDS) + 1)]
    since = [events.since(edge) for edge in edges]
    told = []
    for before, after in pairwise(since):
        counts = Counts(before.good - after.good, before.bad - after.bad, before.undecided - after.undecided)
        told.append((max(0.0, bad_events(slo, counts)), max(0.0, counts.total)))
    return told
