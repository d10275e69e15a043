"""Tables F and G of facts/slo.md, section 7: counters that begin anew, looks that are missing."""

from collections.abc import Iterator
from dataclasses import replace

from conformance_row import Row, holds, near, same
from conformance_world import HOUR, MINUTE, T0, Canaries, Story
from fake_engine import FakeEngine, no_page

from agent.tick import tick
from agent.windows import Windows
from probes.sample import Reading

KEY = ("generation_tokens_total", "")


def counters() -> Iterator[Row]:
    """F: what rose, across restarts and pages that cannot be right."""
    yield near(
        "F", "a counter at 100, 150, 20, 60: rise", 110, _rise([(100, None), (150, None), (20, None), (60, None)])
    )
    hidden = _rise([(100, T0 - 99.0), (150, T0 + 5.0)])
    yield near("F", "100, then 150 of another process: rise", 150, hidden)
    yield near("F", "first seen at 7, its process began after our last look", 7, _first_sight(started=T0 + 5.0))
    yield near("F", "first seen at 7, its process is older", 0, _first_sight(started=T0 - 99.0))
    story = Story(began=T0).serve(MINUTE, 10, 0.5)
    gone = FakeEngine(engine="1", started_at_seconds=story.engine.started_at_seconds)
    story.memory.windows.take(gone.reading(T0 + 70))
    yield near("F", "an engine that left the page: its events", 600, story.status().budget.counts.total)
    torn = Story(began=T0).serve(MINUTE, 10)
    torn.engine.counts["tpot_seconds"][0] += 40  # its finest bucket is ahead of the +Inf one
    reading = torn.engine.reading(T0 + 75)
    histograms = tuple(
        replace(h, counts=(*h.counts[:1], *(count - 40 for count in h.counts[1:]))) for h in reading.histograms
    )
    torn.memory.windows.take(replace(reading, histograms=histograms))
    counts = torn.status().budget.counts
    yield holds("F", "more in a bucket than in all: good, bad never negative", is_so=min(counts.good, counts.bad) >= 0)
    twice = Story(began=T0).serve(MINUTE, 10)
    twice.look(T0 + MINUTE)
    twice.memory.windows.take(twice.engine.reading(T0 + MINUTE - 10))
    yield near("F", "the same look twice, and an older one after it: events", 600, twice.status().budget.counts.total)
    other = Story(began=T0).serve(MINUTE, 10)
    page = other.engine.reading(T0 + 75)
    edges = (*page.histograms[0].edges[:-1], 7777.0, page.histograms[0].edges[-1])
    widened = tuple(replace(h, edges=edges, counts=(*h.counts, h.counts[-1])) for h in page.histograms)
    other.memory.windows.take(replace(page, histograms=widened))
    yield near("F", "other bucket edges: nothing is subtracted across, events", 600, other.status().budget.counts.total)


def gaps() -> Iterator[Row]:
    """G: a look that is missing loses nothing and shows no dip."""
    whole, holed = Story(began=T0), Story(began=T0)
    for step in range(1, 41):
        for story in (whole, holed):
            story.happen(150, 1)
        whole.look(T0 + 15 * step)
        if step == 20:
            holed.memory.windows.take(no_page(T0 + 15 * step))
        else:
            holed.look(T0 + 15 * step)
    yield same("G", "one look in 40 missing: counts of every window", _counts(whole), _counts(holed))
    story = Story(began=T0 - HOUR).serve(HOUR, 10)
    for minute in range(1, 11):
        story.memory.windows.take(no_page(T0 + 60 * minute - 30))
    before = story.status().budget.counts.total
    story.happen(1000, 20)
    story.look(T0 + 600)
    status = story.status()
    yield near(
        "G", "10 min without a page, then +1000/+20 bad: in the budget", 1020, status.budget.counts.total - before
    )
    yield near("G", "... bad ones in the last 5 min: spread over the gap", 10, status.burns[0].short_counts.bad)
    down = Story(began=T0).serve(MINUTE, 10)
    down.memory.windows.take(no_page(T0 + 100))
    down.memory.windows.take(no_page(T0 + 130))
    yield same("G", "the target is down: a latency SLO from the engine", "no_data", down.status(T0 + 130).state)
    canaries = Canaries(0.999, Story().plan.slos[0].pairs, 3, T0)
    for minute in range(1, 4):
        canaries.send(T0 + 60 * minute, is_ok=False)
    counts = tick(canaries.plan, canaries.memory, T0 + 180).snapshot.slos[0].budget.counts
    yield near("G", "... availability counts its failed canaries", 3, counts.bad)


def _rise(readings: list[tuple[float, float | None]]) -> float:
    """How much the windows count of generated tokens over these (value, process start)."""
    windows, found = Windows(), 0.0
    for step, (value, started) in enumerate(readings):
        windows.take(_page(value, started, T0 + 10 * step))
    for increment in windows.drain()[0]:
        found += increment.counters.get(KEY, 0.0)
    return found


def _first_sight(started: float) -> float:
    """A series that the page before did not have."""
    windows = Windows()
    windows.take(no_page(T0))
    windows.take(_page(7, started, T0 + 10))
    return sum(increment.counters.get(KEY, 0.0) for increment in windows.drain()[0])


def _page(value: float, started: float | None, at: float) -> Reading:
    return FakeEngine(generated=value, started_at_seconds=started).reading(at)


def _counts(story: Story) -> tuple[float, ...]:
    return tuple(round(burn.long_counts.total, 6) for burn in story.status().burns)
