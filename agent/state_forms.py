"""The memory as plain values and back: what a state file holds of it, and what it leaves behind.

Kept: counts, last raw counters with the process's start, balances of pending requests, the alert book, the ledger, what
advice has learned, the newest canary results. Left behind: the last hour's increments, so that percentiles begin anew.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, TypeVar

from agent.alerts.book import Labels, Returned
from agent.model import Alert, Evidence, Recommendation
from agent.raw import Raw
from agent.sli.composites import Joined
from agent.sli.count import PendingBook
from agent.sli.engine import Balance
from agent.sli.goodput import JointRequests
from agent.sli.pending import PendingRequests
from agent.sli.slices import Slices
from agent.sli.uncovered import MOST_AHEAD, SpanBalance, Stretch
from agent.state_advice import PREFIX, SavedAdvice, restored_advisor
from agent.stats.time_buckets import TimeBuckets
from agent.tick import Memory
from agent.windows import EngineKey, TargetLog, Windows
from probes.sample import HistogramSample, PageWarning, ProbeResult, Reading

KEPT_PROBES = 20  # of each target
Row = tuple[str, int, bytes]  # name, place, body
Kind = TypeVar("Kind", Alert, Recommendation, HistogramSample, ProbeResult, Reading)


class SavedMemory:
    """Tells the rows that changed since they were last told, so that a save writes kilobytes and not the whole."""

    def __init__(self) -> None:
        self._buckets: dict[str, TimeBuckets] = {}
        self._targets: set[str] = set()
        self._advice = SavedAdvice()

    def changes(self, memory: Memory, now_seconds: float, *, everything: bool) -> tuple[list[str] | None, list[Row]]:
        """Names whose rows are to be deleted first (None: all), and the rows to write. All readings must be counted."""
        windows = memory.windows
        known = {} if everything else self._buckets
        gone = [name for name, buckets in self._buckets.items() if windows.events.get(name) is not buckets]
        deleted = [of for name in gone for of in _names_of_slo(name)]
        deleted += [f"target/{name}" for name in self._targets - windows.targets.keys()]
        rows = [("memory", 0, _json(_memory_form(memory, now_seconds)))]
        rows += [(f"target/{name}", 0, _json(_target_form(windows, name))) for name in windows.targets]
        for name, buckets in windows.events.items():
            outline, *tiers = _names_of_slo(name)
            rows.append((outline, 0, _json(buckets.outline())))
            rows += [
                (tiers[tier], chunk, body)
                for tier, chunk, body in buckets.changed_chunks(everything=known.get(name) is not buckets)
            ]
        deleted_advice, advice_rows = self._advice.changes(memory.advisor, windows, now_seconds, everything=everything)
        deleted, rows = deleted + deleted_advice, rows + advice_rows
        self._buckets, self._targets = dict(windows.events), set(windows.targets)
        return (None if everything else deleted), rows

    def restored(self, rows: Iterable[Row], now_seconds: float) -> tuple[Memory, float]:
        """The memory, and when it was saved.

        Raises ValueError, LookupError, TypeError or AttributeError where rows are none of ours.
        """
        learned: list[Row] = []
        chunks: dict[str, dict[tuple[int, int], bytes]] = {}
        forms: dict[str, Any] = {}
        for name, place, body in rows:
            if name.startswith("buckets/"):
                _, tier, slo = name.split("/", 2)
                chunks.setdefault(slo, {})[int(tier), place] = body
            elif name.startswith(PREFIX):
                learned.append((name, place, body))
            else:
                forms[name] = json.loads(body)
        memory = Memory()
        for name, form in forms.items():
            kind, _, rest = name.partition("/")
            if kind == "slo":
                memory.windows.events[rest] = TimeBuckets.restored(**form, chunks=chunks.get(rest, {}))
            elif kind == "target":
                _restore_target(memory.windows, rest, form)
        saved_at = _restore_memory(memory, forms["memory"])
        memory.advisor = restored_advisor(learned)
        memory.windows.restored_at_seconds = now_seconds
        self._buckets, self._targets = dict(memory.windows.events), set(memory.windows.targets)
        return memory, saved_at


def _names_of_slo(name: str) -> list[str]:
    return [f"slo/{name}", *(f"buckets/{tier}/{name}" for tier in range(3))]


def _json(form: object) -> bytes:
    return json.dumps(form, default=list, separators=(",", ":")).encode()


def _memory_form(memory: Memory, now_seconds: float) -> dict[str, object]:
    balances = memory.pending.balances.items()
    return {
        "saved_at_seconds": now_seconds,
        "lost_at_seconds": memory.lost_at_seconds,
        "definitions": memory.pending.definitions,
        "balances": [(slo, key, asdict(balance)) for (slo, key), balance in balances if balance is not None],
        "returned": [(labels, asdict(back)) for labels, back in memory.alerts.returned.items()],
        "ended": list(memory.alerts.ended.items()),
        "spans": [(place, asdict(balance)) for place, balance in memory.pending.spans.items()],
        "joined": [(slo, [(at, list(by.items())) for at, by in of.told.items()]) for slo, of in _joined(memory)],
        "slices": [(slo, of.judged_until, list(of.open.items())) for slo, of in memory.pending.slices.items()],
        "firing": [_alert_form(alert) for alert in memory.alerts.firing.values()],
        "ledger": [asdict(entry) for entry in memory.ledger.entries],
    }


def _alert_form(alert: Alert) -> dict[str, object]:
    return {
        "labels": alert.labels,
        "annotations": dict(alert.annotations),
        "starts_at_seconds": alert.starts_at_seconds,
    }


def _target_form(windows: Windows, name: str) -> dict[str, object]:
    log = windows.targets[name]
    results = list(windows.probes.get(name, ()))[-KEPT_PROBES:]
    return {
        "source": log.source,
        "first_attempt_at_seconds": log.first_attempt_at_seconds,
        "last_attempt": _reading_form(log.last_attempt),
        "last_ok": None if log.last_ok is None else _reading_form(log.last_ok),
        "model": log.model,
        "signals": sorted(log.signals),
        "has_succeeded": name in windows.succeeded,
        "probes": [asdict(replace(result, sent=())) for result in results],
        "engines": [(key, _raw_form(raw)) for key, raw in windows.raw.items() if key.target == name],
    }


def _reading_form(reading: Reading) -> dict[str, object]:
    """Without its samples: `Raw` has them."""
    return {
        "target": reading.target,
        "source": reading.source,
        "at_seconds": reading.at_seconds,
        "outcome": reading.outcome,
        "detail": reading.detail,
        "process_start_seconds": reading.process_start_seconds,
        "warnings": [(warning.code, warning.message) for warning in reading.warnings],
    }


def _raw_form(raw: Raw) -> dict[str, object]:
    return {
        "counters": list(raw.counters.items()),
        "gauges": list(raw.gauges.items()),
        "histograms": [(signal, asdict(histogram)) for signal, histogram in raw.histograms.items()],
    }


def _restore_memory(memory: Memory, form: Mapping[str, Any]) -> float:
    memory.lost_at_seconds = form["lost_at_seconds"]
    memory.pending = PendingBook(
        {(slo, EngineKey(*key)): _balance(balance) for slo, key, balance in form["balances"]},
        {name: tuple(definition) for name, definition in form["definitions"].items()},
        {(target, model): _span_balance(balance) for (target, model), balance in form.get("spans", ())},
        joined={slo: _joined_from(told) for slo, told in form.get("joined", ())},
        slices={slo: _slices(until, slices) for slo, until, slices in form.get("slices", ())},
    )
    for alert in form["firing"]:
        labels = _labels(alert["labels"])
        memory.alerts.firing[labels] = Alert(labels, alert["annotations"], alert["starts_at_seconds"])
    for labels, back in form.get("returned", ()):  # a file of before has none
        memory.alerts.returned[_labels(labels)] = Returned(**back)
    memory.alerts.ended.update((_labels(labels), until) for labels, until in form.get("ended", ()))
    memory.ledger.entries += map(_recommendation, form["ledger"])
    return float(form["saved_at_seconds"])


def _labels(pairs: Iterable[Sequence[str]]) -> Labels:
    return tuple((key, value) for key, value in pairs)


def _balance(form: dict[str, Any]) -> Balance:
    if "first" in form:
        return JointRequests(**{**form, "first": _pending(form["first"])})
    return _pending(form)


def _pending(form: dict[str, Any]) -> PendingRequests:
    arrivals = deque((at, arrived) for at, arrived in form["_arrivals"])
    return PendingRequests(**{**form, "_arrivals": arrivals})


def _span_balance(form: dict[str, Any]) -> SpanBalance:
    parts = {
        "_open": [Stretch(**stretch) for stretch in form["_open"]],
        "_ahead": deque(form["_ahead"], MOST_AHEAD),
    }
    return SpanBalance(**{**form, **parts})


def _joined(memory: Memory) -> Iterable[tuple[str, Joined]]:
    return memory.pending.joined.items()


def _joined_from(told: Iterable[tuple[int, Iterable[tuple[str, Sequence[float]]]]]) -> Joined:
    return Joined({place: {name: (n[0], n[1], n[2]) for name, n in said} for place, said in told})


def _slices(judged_until: int | None, open_ones: Iterable[tuple[int, Sequence[float]]]) -> Slices:
    return Slices({place: (good, bad, undecided) for place, (good, bad, undecided) in open_ones}, judged_until)


def _recommendation(form: dict[str, Any]) -> Recommendation:
    evidence = tuple(Evidence(**item) for item in form["evidence"])
    return _made(Recommendation, {**form, "evidence": evidence})


def _restore_target(windows: Windows, name: str, form: Mapping[str, Any]) -> None:
    last_ok = form["last_ok"]
    windows.targets[name] = TargetLog(
        form["source"],
        form["first_attempt_at_seconds"],
        _reading(form["last_attempt"]),
        None if last_ok is None else _reading(last_ok),
        form["model"],
        set(form["signals"]),
    )
    if form["has_succeeded"]:
        windows.succeeded.add(name)
    windows.probes[name].extend(_made(ProbeResult, result) for result in form["probes"])
    for key, raw in form["engines"]:
        windows.raw[EngineKey(*key)] = Raw(
            _places(raw["counters"]),
            {signal: _made(HistogramSample, histogram) for signal, histogram in raw["histograms"]},
            _places(raw["gauges"]),
        )


def _reading(form: dict[str, Any]) -> Reading:
    return _made(Reading, {**form, "warnings": [PageWarning(*warning) for warning in form["warnings"]]})


def _places(items: Iterable[Sequence[Any]]) -> dict[tuple[str, str], float]:
    return {(signal, label): value for (signal, label), value in items}


def _made(kind: type[Kind], form: Mapping[str, Any]) -> Kind:
    """A frozen noun of these fields; one that this version does not know is left out. JSON's lists become tuples."""
    known = {field.name for field in fields(kind)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in form.items() if name in known
    }
    return kind(**values)
