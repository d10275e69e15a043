"""The ledger: what was advised, and whether it came true; one of the three things that remember."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from agent.model import Recommendation, SloStatus, TargetStatus

KEPT = 200
REPEAT_SECONDS = 900.0  # the same advice is not given again within it, unless it grows


@dataclass(slots=True)
class Ledger:
    """Recommendations, oldest first; the open ones have no verdict."""

    entries: list[Recommendation] = field(default_factory=list)

    def settle(
        self,
        advised: Iterable[Recommendation],
        statuses: Sequence[TargetStatus],
        slos: Sequence[SloStatus],
        now_seconds: float,
    ) -> tuple[Recommendation, ...]:
        """Give verdicts that are due and enter new advice; returns the entries that are new or changed."""
        changed = [
            self._close(entry, statuses, slos, now_seconds) for entry in self.open if _is_due(entry, now_seconds)
        ]
        for advice in advised:
            open_ones = [entry for entry in self.open if _topic(entry) == _topic(advice)]
            latest = next((e for e in reversed(self.entries) if _topic(e) == _topic(advice)), None)
            if latest is not None and _is_repeat(latest, advice, now_seconds):
                continue
            changed += [self._replace(entry, "superseded", now_seconds) for entry in open_ones]
            self.entries.append(advice)
            changed.append(advice)
        del self.entries[:-KEPT]
        return tuple(changed)

    @property
    def open(self) -> list[Recommendation]:
        return [entry for entry in self.entries if entry.verdict is None]

    def _close(
        self, entry: Recommendation, statuses: Sequence[TargetStatus], slos: Sequence[SloStatus], now_seconds: float
    ) -> Recommendation:
        return self._replace(entry, _verdict(entry, statuses, slos), now_seconds)

    def _replace(self, entry: Recommendation, verdict: str, now_seconds: float) -> Recommendation:
        done = replace(entry, verdict=verdict, verdict_at_seconds=now_seconds)
        self.entries[self.entries.index(entry)] = done
        return done


def _topic(entry: Recommendation) -> tuple[str, str, str]:
    return entry.model, entry.role, entry.action


def _is_due(entry: Recommendation, now_seconds: float) -> bool:
    return now_seconds >= entry.verify_at_seconds


def _is_repeat(latest: Recommendation, advice: Recommendation, now_seconds: float) -> bool:
    """The same again: within the range of one that is open, or just judged, and not asking for more.

    A setting (anything but a number of replicas) is advised anew where by now doing nothing breaks a promise.
    """
    if advice.action != "scale" and advice.do_nothing.get("meets_slo") != latest.do_nothing.get("meets_slo"):
        return False
    if latest.verdict is None:
        return advice.proposed <= latest.high
    return now_seconds - latest.at_seconds < REPEAT_SECONDS and advice.proposed <= latest.proposed


def _verdict(entry: Recommendation, statuses: Sequence[TargetStatus], slos: Sequence[SloStatus]) -> str:
    """One of kept (applied, and the objective holds now), missed (applied, and it does not), not_applied, and unknown:
    applied, but nothing tells how the objective fares. Now is the shortest window: longer ones remember the trouble.
    """
    if entry.action != "scale":
        return "unknown"  # pages do not tell whether a setting was changed
    replicas = sum(s.health == "up" and (s.model, s.role) == (entry.model, entry.role) for s in statuses)
    if replicas < entry.low:
        return "not_applied"
    names = {e.signal.removeprefix("burn_rate:") for e in entry.evidence if e.signal.startswith("burn_rate:")}
    fastest = [
        min(slo.burns, key=lambda b: b.pair.short_seconds) for slo in slos if slo.slo.name in names and slo.burns
    ]
    rates = [burn.short_rate for burn in fastest]
    known = [rate for rate in rates if rate is not None]
    if not known or len(known) < len(rates):
        return "unknown"
    return "kept" if max(known) <= 1.0 else "missed"
