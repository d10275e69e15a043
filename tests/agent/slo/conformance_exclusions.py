"""Table K of facts/slo.md, section 7: time that counts for nothing, and a budget that begins anew."""

from collections.abc import Iterator
from dataclasses import replace

from conformance_row import Row, holds, near, same
from conformance_world import HOUR, MINUTE, MONTH, T0, Story

from agent.slo.exclusions import Exclusion


def exclusions() -> Iterator[Row]:
    """K: an outage of an hour at the end of 30 days."""
    story = Story().serve(MONTH - HOUR, 10).serve(HOUR, 10, 1.0)
    spent = story.spent_percent()
    yield near("K", "an hour of total outage, 99.9 %: % spent", 100 / 0.72, spent)
    fired = story.firing()
    _exclude(story, (T0 - HOUR, T0))
    yield near("K", "... excluded afterwards: % spent", 0, story.spent_percent())
    status = story.status()
    yield same("K", "... what its page pair says", "excluded", status.burns[0].reason)
    excluded = sum(one.counts.total for one in status.excluded)
    yield near("K", "... events that are on record as excluded", 36_000, excluded)
    yield holds("K", "... it paged before, and does not now", is_so="page/fast" in fired - story.firing())
    _exclude(story, (T0 - HOUR, T0 - 20 * MINUTE), (T0 - 40 * MINUTE, T0))
    yield near("K", "... by two exclusions that overlap: % spent", 0, story.spent_percent())
    _exclude(story, (T0 - HOUR, T0 - 30 * MINUTE), (T0 - 45 * MINUTE, T0 - 30 * MINUTE))
    half = 1800 / ((MONTH - 1800) * 0.001) * 100
    yield near("K", "... half of it, by two that overlap: % spent", half, story.spent_percent())
    _exclude(story)
    yield near("K", "... and taken out again: % spent", 100 / 0.72, story.spent_percent())
    anew = Story().serve(MONTH - HOUR, 10).serve(HOUR, 10, 1.0).serve(10 * MINUTE, 10)
    rate = anew.status().burns[1].long_rate
    anew.plan = replace(anew.plan, slos=(replace(anew.plan.slos[0], epoch_seconds=T0),))
    yield near("K", "an epoch after the outage: % spent since", 0, anew.spent_percent())
    yield same("K", "... and the burn over 6 h is as before", rate, anew.status().burns[1].long_rate)


def _exclude(story: Story, *spans: tuple[float, float]) -> None:
    found = tuple(Exclusion(("*",), "agreed", "us", begin, end) for begin, end in spans)
    story.plan = replace(story.plan, exclusions=found)
