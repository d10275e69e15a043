"""The alert book: which alerts fire, since when; one of the three things that remember."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from agent.model import Alert

Labels = tuple[tuple[str, str], ...]
CALM_WORDS = " It is over for now, but came back once before: it goes on until it has been calm for a while."


@dataclass(frozen=True, slots=True)
class Wanted:
    """An alert that should fire now. `labels` is its identity; the words may change while it fires.

    One that comes back within `returns_seconds` of its end goes on until it was not wanted for `calm_seconds`.
    """

    labels: Labels
    annotations: Mapping[str, str]
    returns_seconds: float = 0.0
    calm_seconds: float = 0.0


@dataclass(slots=True)
class Returned:
    """An alert that came back: how long it must be calm before it ends, and when it was last wanted."""

    calm_seconds: float
    wanted_at_seconds: float


@dataclass(slots=True)
class AlertBook:
    """Alerts that fire, by identity; which of them came back; when those that may come back ended (`ended`: until when
    a new one counts as the same).
    """

    firing: dict[Labels, Alert] = field(default_factory=dict)
    returned: dict[Labels, Returned] = field(default_factory=dict)
    ended: dict[Labels, float] = field(default_factory=dict)

    def settle(self, wanted: Iterable[Wanted], held: frozenset[Labels], now_seconds: float) -> tuple[Alert, ...]:
        """Make the book equal to what is wanted; returns alerts that began to fire or were resolved.

        An alert in `held` that already fires goes on firing: nothing shows that its cause is over.
        """
        due = {want.labels: want for want in wanted}
        changed = []
        for labels, want in due.items():
            known = self.firing.get(labels)
            if known is None:
                changed.append(Alert(labels, want.annotations, now_seconds))
                self.firing[labels] = changed[-1]
                if now_seconds <= self.ended.get(labels, -inf):
                    self.returned[labels] = Returned(want.calm_seconds, now_seconds)
            else:
                self.firing[labels] = replace(known, annotations=want.annotations)
            if (back := self.returned.get(labels)) is not None:
                back.wanted_at_seconds = now_seconds
            if want.returns_seconds:
                self.ended[labels] = now_seconds + want.returns_seconds
        calming = self._not_yet_calm(now_seconds) - due.keys()
        for labels in calming:
            self.firing[labels] = _with_reason(self.firing[labels])
        kept = held | calming
        over = [labels for labels in self.firing if labels not in due and labels not in kept]
        changed += [self._end(labels, now_seconds) for labels in over]
        self.ended = {labels: until for labels, until in self.ended.items() if now_seconds <= until}
        return tuple(changed)

    def _not_yet_calm(self, now_seconds: float) -> frozenset[Labels]:
        calm = ((labels, back.wanted_at_seconds + back.calm_seconds) for labels, back in self.returned.items())
        return frozenset(labels for labels, until in calm if now_seconds < until and labels in self.firing)

    def _end(self, labels: Labels, now_seconds: float) -> Alert:
        self.returned.pop(labels, None)
        return replace(self.firing.pop(labels), ends_at_seconds=now_seconds)


def _with_reason(alert: Alert) -> Alert:
    """The alert with why it goes on, said once; its figures are those of when it was last wanted."""
    said = alert.annotations.get("description", "")
    if said.endswith(CALM_WORDS):
        return alert
    return replace(alert, annotations={**alert.annotations, "description": said + CALM_WORDS})


def alert_labels(name: str, severity: str, node: str | None, **more: str | None) -> Labels:
    """The labels of an alert, sorted; those without a value are left out. Values of figures never stand in them."""
    pairs = {"alertname": name, "severity": severity, "node": node, **more}
    return tuple(sorted((key, value) for key, value in pairs.items() if value))
