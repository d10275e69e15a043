"""The top line of the page: how things stand, in words a person can act on at three in the morning."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from agent.model import Alert, Burn, SloStatus, Snapshot, TargetStatus
from agent.web import words
from agent.web.outcome_words import spoken

Level = Literal["bad", "watch", "unknown", "good"]
SILENCES = {
    "idle": "no requests",
    "rolling_out": "engines are starting",
    "down": "engines are down",
    "blind": "nothing tells what it counts",
    "insufficient": "too few events",
}
URGENCY: tuple[Level, ...] = ("bad", "watch", "unknown", "good")

STALE_TICK_SECONDS = 90.0
"""Agent time without an evaluation after which nothing on the page can be trusted; eighteen default ticks."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One thing worth saying and how bad it is."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The worst thing first; `details` are the others, in falling order of urgency."""

    level: Level
    text: str
    details: tuple[str, ...]


def has_ticked(snapshot: Snapshot) -> bool:
    """Whether the agent has evaluated anything yet: a snapshot from before the first tick is stamped 0."""
    return snapshot.at_seconds > 0


def verdict(snapshot: Snapshot, now_seconds: float, paging: Sentence | None = None) -> Verdict:
    """How things stand. Only "good" when SLOs are kept, targets answer, the agent is awake and somebody can be paged.

    `paging` says why nobody can be, None where nothing speaks against it.
    """
    if not has_ticked(snapshot):
        return Verdict("unknown", "Starting: nothing has been evaluated yet", ())
    found = [*_sentences(snapshot, now_seconds), *([paging] if paging else [])]
    sentences = sorted(found, key=lambda said: ("bad", "watch", "unknown").index(said.level))
    if not sentences:
        return Verdict("good", _all_kept(snapshot), ())
    kept = sum(status.state == "ok" and not is_overspent(status) for status in snapshot.slos)
    if kept and all(status.state in ("ok", "no_traffic") and not is_overspent(status) for status in snapshot.slos):
        sentences.append(Sentence("good", _all_kept(snapshot)))
    elif kept:
        sentences.append(Sentence("good", f"{words.count(kept, 'other SLO')} {'is' if kept == 1 else 'are'} kept"))
    first, *others = sentences
    return Verdict(first.level, first.text, tuple(said.text for said in others))


def _sentences(snapshot: Snapshot, now_seconds: float) -> Iterator[Sentence]:
    age_seconds = now_seconds - snapshot.at_seconds
    if age_seconds > STALE_TICK_SECONDS:
        yield Sentence("bad", f"The agent has not evaluated anything for {words.duration(age_seconds)}")
    yield from _burning(snapshot, now_seconds)
    yield from _exhausted(snapshot)
    yield from _targets(snapshot, now_seconds)
    yield from _other_alerts(snapshot, now_seconds)
    yield from _unknown(snapshot)


def _burning(snapshot: Snapshot, now_seconds: float) -> Iterator[Sentence]:
    found = sorted((s for s in snapshot.slos if s.state == "burning"), key=lambda s: -(fastest(s).pair.factor))
    burning = [status for status in found if not recovery(status)]
    if burning:
        said = [f"{status.slo.name}, {words.factor(fastest(status).long_rate)}" for status in burning]
        is_or_are = "is burning its budget" if len(burning) == 1 else "are burning their budgets"
        told = _told({status.slo.name for status in burning}, snapshot.alerts, now_seconds)
        paging = any(fastest(status).pair.severity == "page" for status in burning)
        text = f"{words.count(len(burning), 'SLO')} {is_or_are}: {'; '.join(said)}{told}"
        yield Sentence("bad" if paging else "watch", text)
    if over := [status for status in found if recovery(status)]:
        said = [f"{status.slo.name}, {recovery(status)}" for status in over]
        told = _told({status.slo.name for status in over}, snapshot.alerts, now_seconds)
        is_or_are = "is" if len(over) == 1 else "are"
        yield Sentence("watch", f"{words.count(len(over), 'SLO')} {is_or_are} recovering: {'; '.join(said)}{told}")


def recovery(status: SloStatus) -> str:
    """That nothing burns any more and the alert only waits for its window; "" where that is not known to be so."""
    newest = min(status.burns, key=lambda burn: burn.pair.short_seconds)
    waits_for = fastest(status).pair.short_seconds
    spends = newest.short_rate is None or newest.short_rate >= 1  # 1x is as much as is allowed
    if spends or newest.pair.short_seconds >= waits_for:
        return ""
    good, window = words.duration(newest.pair.short_seconds), words.duration(waits_for)
    return f"the last {good} are good, the alert ends when the last {window} are"


def fastest(status: SloStatus) -> Burn:
    """The burning pair with the highest factor; the first pair where none burns."""
    return max(status.burns, key=lambda burn: (burn.is_burning, burn.pair.factor))


def _told(slos: set[str], alerts: tuple[Alert, ...], now_seconds: float) -> str:
    for severity, verb in (("page", "paged"), ("ticket", "ticket opened")):
        starts = [
            alert.starts_at_seconds
            for alert in alerts
            if alert.is_firing
            and alert.name == "SLOBurnRate"
            and _label(alert, "slo") in slos
            and _label(alert, "severity") == severity
        ]
        if starts:
            return f"; {verb} {words.duration(now_seconds - min(starts))} ago"
    return ""


def is_overspent(status: SloStatus) -> bool:
    """More events were bad than the budget of those counted so far allows, though nothing burns now."""
    left = status.budget.remaining_ratio
    return status.state == "ok" and left is not None and left < 0


def _exhausted(snapshot: Snapshot) -> Iterator[Sentence]:
    names = [status.slo.name for status in snapshot.slos if status.state == "exhausted"]
    if names:
        has_or_have = "has" if len(names) == 1 else "have"
        yield Sentence("bad", f"{words.listing(names)} {has_or_have} spent the whole error budget of the period")
    over = [status.slo.name for status in snapshot.slos if is_overspent(status)]
    if over:
        has_or_have = "has" if len(over) == 1 else "have"
        yield Sentence(
            "watch", f"{words.listing(over)} {has_or_have} overspent the error budget so far; it burns no more"
        )


def _targets(snapshot: Snapshot, now_seconds: float) -> Iterator[Sentence]:
    for target in snapshot.targets:
        match target.health:
            case "down":
                yield Sentence("bad", f"{target.name} is down{_because(target)}, {_seen(target, now_seconds)}")
            case "stuck":
                yield Sentence("bad", f"{target.name} is stuck: it answers, but makes no progress")
            case "stale":
                yield Sentence("watch", f"No data from {target.name}{_silent(target, now_seconds)}{_because(target)}")
            case "unknown":
                yield Sentence("unknown", f"{target.name} has not answered yet{_because(target)}")
            case "up" if target.detail:
                yield Sentence("watch", f"{target.name}: {target.detail}")
            case "up":
                pass


def _because(target: TargetStatus) -> str:
    return "" if target.last_outcome in ("", "ok") else f": {spoken(target.last_outcome)}"


def _seen(target: TargetStatus, now_seconds: float) -> str:
    if target.last_seen_seconds is None:
        return "never seen"
    return f"last seen {words.duration(now_seconds - target.last_seen_seconds)} ago"


def _silent(target: TargetStatus, now_seconds: float) -> str:
    seen_at_seconds = target.last_seen_seconds
    return "" if seen_at_seconds is None else f" for {words.duration(now_seconds - seen_at_seconds)}"


def _other_alerts(snapshot: Snapshot, now_seconds: float) -> Iterator[Sentence]:
    said_already = {"SLOBurnRate", "SLOBudgetExhausted", "EngineUnreachable", "EngineStuck", "Watchdog"}
    for alert in snapshot.alerts:
        if alert.is_firing and alert.name not in said_already:
            summary = alert.annotations.get("summary") or alert.name
            since = words.duration(now_seconds - alert.starts_at_seconds)
            yield Sentence("bad" if _label(alert, "severity") == "page" else "watch", f"{summary} (for {since})")


def _unknown(snapshot: Snapshot) -> Iterator[Sentence]:
    blind = [status for status in snapshot.slos if status.state == "no_data"]
    early = [status.slo.name for status in snapshot.slos if status.state == "insufficient_data"]
    if blind:
        why = sorted({SILENCES[status.silence.reason] for status in blind if status.silence})
        because = f": {', '.join(why)}" if why else ""
        yield Sentence("unknown", f"No data to judge {words.listing([s.slo.name for s in blind])}{because}")
    if early:
        yield Sentence("unknown", f"Not enough data yet to judge {words.listing(early)}")


def _all_kept(snapshot: Snapshot) -> str:
    idle = [status.slo.name for status in snapshot.slos if status.state == "no_traffic"]
    number = len(snapshot.slos)
    if not number:
        return f"No SLOs are configured; {words.count(len(snapshot.targets), 'target')} watched"
    if len(idle) == number:
        return "No traffic: nothing to judge, every target answers"
    kept = "The SLO is kept" if number == 1 else f"All {number} SLOs are kept"
    return kept + (f" ({words.listing(idle)}: no traffic)" if idle else "")


def _label(alert: Alert, name: str) -> str:
    return dict(alert.labels).get(name, "")
