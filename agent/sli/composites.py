"""Composites: a slice of time is good for all of several SLOs at once, or bad for one of them."""

from dataclasses import dataclass, field

from agent.model import Slo
from agent.sli.slices import BAD, GOOD, UNDECIDED, Verdict
from agent.stats.time_buckets import Numbers, TimeBuckets

KEPT_SLICES = 10_000  # a week of minutes: a slice of which not every member has told by then stays without a verdict


@dataclass(slots=True)
class Joined:
    """What the members of one composite said of each slice, by place, until all of them have.

    A slice is bad as soon as one member says so, good when all say so, undecided when all have told and one cannot say.
    While a member says nothing and none says bad there is no verdict: the slice is empty. So none is ever taken back.
    """

    told: dict[int, dict[str, Numbers]] = field(default_factory=dict)

    def take(self, slo: Slo, member: str, verdict: Verdict, events: TimeBuckets) -> None:
        """One member's verdict becomes, with those of the others, one event of the composite."""
        said = self.told.setdefault(verdict.place, {})
        was_bad = BAD in said.values()
        said[member] = verdict.numbers
        is_whole = said.keys() >= set(slo.all_of)
        if is_whole:
            del self.told[verdict.place]
        if not was_bad and (is_whole or verdict.numbers == BAD):
            events.count(verdict.from_seconds, verdict.to_seconds, _worst(said))
        for place in [place for place in self.told if place < verdict.place - KEPT_SLICES]:
            del self.told[place]


def _worst(said: dict[str, Numbers]) -> Numbers:
    return next((numbers for numbers in (BAD, UNDECIDED) if numbers in said.values()), GOOD)
