"""What the windows keep of some targets, gathered once: what is asked of each and of all is read a single time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agent.increment import Increment
from agent.signals.sums import Sums, add_up, together
from agent.windows import Windows


@dataclass(frozen=True, slots=True)
class Gathered:
    """The increments of some targets over one window, and what they add up to."""

    increments: Sequence[Increment]
    sums: Sums


Gather = Callable[[Sequence[str]], Gathered]
"""What these targets did."""


def gather(windows: Windows, start_seconds: float, end_seconds: float) -> Gather:
    """Each target is read when it is first asked for; several are the sum of each."""
    known: dict[str, Gathered] = {}

    def of(names: Sequence[str]) -> Gathered:
        for name in names:
            if name not in known:
                increments = list(windows.settled(start_seconds, end_seconds, [name]))
                known[name] = Gathered(increments, add_up(increments))
        return known[names[0]] if len(names) == 1 else _all(known[name] for name in names)

    return of


def _all(parts: Iterable[Gathered]) -> Gathered:
    every = list(parts)
    return Gathered([i for part in every for i in part.increments], together(part.sums for part in every))
