"""The alert book: which alerts fire, since when; one of the three things that remember."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agent.model import Alert

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """An alert that should fire now. `labels` is its identity; the words may change while it fires."""

    labels: Labels
    annotations: Mapping[str, str]


@dataclass(slots=True)
class AlertBook:
    """Alerts that fire, by identity."""

    firing: dict[Labels, Alert] = field(default_factory=dict)

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
            else:
                self.firing[labels] = replace(known, annotations=want.annotations)
        over = [labels for labels in self.firing if labels not in due and labels not in held]
        changed += [replace(self.firing.pop(labels), ends_at_seconds=now_seconds) for labels in over]
        return tuple(changed)


def alert_labels(name: str, severity: str, node: str | None, **more: str | None) -> Labels:
    """The labels of an alert, sorted; those without a value are left out. Values of figures never stand in them."""
    pairs = {"alertname": name, "severity": severity, "node": node, **more}
    return tuple(sorted((key, value) for key, value in pairs.items() if value))
