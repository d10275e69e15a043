"""Table D of facts/slo.md, section 7: where one event decides. False alarms are simulated, as the suite's were."""

import os
import random
from collections.abc import Iterator

from conformance_row import Row, holds, near, same
from conformance_world import DAY, HOUR, MONTH, PAIRS, T0, Canaries, Story

from agent.foresight import warnings
from agent.model import BurnPair, Slo

MONTHS = int(os.environ.get("SLO_AGENT_CONFORMANCE_MONTHS", "8"))
FEWEST = {0.999: (70, 167, 334, 1000), 0.99: (7, 17, 34, 100), 0.95: (2, 4, 7, 20)}
INTERVALS = {0.999: (51.84, 129.6), 0.99: (518.4, 1296.0), 0.95: (2592.0, 6480.0)}  # of the two page pairs
FALSE_PAGES = [  # objective, requests an hour, bad ones that are needed, fast pages a month
    (0.999, 6, 1, 4.6),
    (0.999, 60, 1, 40.8),
    (0.999, 600, 1, 0.0),
    (0.99, 6, 1, 24.0),
    (0.99, 60, 1, 0.0),
    (0.999, 60, 3, 0.15),
    (0.99, 6, 3, 0.1),
]


def lone_failures() -> Iterator[Row]:
    """How many events a window needs so that one bad one does not fire, and how often a canary must be sent for it."""
    for objective, numbers in FEWEST.items():
        for pair, fewest in zip(PAIRS, numbers, strict=True):
            found = next((n for n in range(max(1, fewest - 2), fewest + 3) if not _fires_alone(objective, pair, n)), 0)
            yield near("D", f"{objective:.1%}, {_word(pair)}: events so that one failure does not fire", fewest, found)
    for objective, seconds in INTERVALS.items():
        told = [_warned(objective, at) for at in (seconds[0] * 0.999, seconds[0] * 1.001, seconds[1] * 1.001)]
        case = (
            f"{objective:.1%}: page pairs warned of, a canary each {seconds[0]:g} s, just more, over {seconds[1]:g} s"
        )
        yield same("D", case, "0, 1, 2", ", ".join(map(str, told)))


def false_pages() -> Iterator[Row]:
    """Independent errors at exactly the budget. Ours must be the suite's figure within the dice (four sigma)."""
    for objective, per_hour, at_least, wanted in FALSE_PAGES:
        months = MONTHS if per_hour < 600 else 1
        found = _transitions(objective, per_hour, at_least, months)
        slack = 4 * (max(wanted, 0.25) / months) ** 0.5 + 4 * (wanted / 20) ** 0.5
        case = f"{objective:.1%}, {per_hour} requests/h, {at_least} bad needed: fast pages a month, {months} of dice"
        yield Row("D", case, f"{wanted:g}", f"{found:g}", abs(found - wanted) <= slack)


def silence() -> Iterator[Row]:
    """No events are no good news, and no bad ones."""
    story = Story().serve(MONTH, 10)
    before = story.status().budget.remaining_ratio
    story.serve(300, 0)
    yield holds("D", "5 idle minutes in 30 days: the budget moves by less than 0.01 %", is_so=_alike(story, before))
    idle = Story().serve(MONTH, 10).serve(7 * HOUR, 0)
    status = idle.status()
    yield same(
        "D",
        "7 idle hours: state, and the rate of the pair 1h/5m",
        "no_traffic, None",
        f"{status.state}, {status.burns[0].long_rate}",
    )
    held = Story().serve(MONTH - HOUR, 10).serve(HOUR, 10, 1.0)
    held.status()
    fired = held.firing()
    held.serve(HOUR + 300, 0)
    held.status()
    yield same(
        "D",
        "... what fired before goes on firing",
        "page/fast",
        "page/fast" if "page/fast" in fired & held.firing() else "none",
    )


def _fires_alone(objective: float, pair: BurnPair, events: int) -> bool:
    """A window full of so many events, the last one bad, where one is enough."""
    canaries = Canaries(objective, (pair,), 1, T0 - 2 * pair.long_seconds)
    for number in range(events):
        canaries.send(T0 - 1 - pair.long_seconds * (1 - (number + 1) / events), is_ok=number < events - 1)
    return canaries.burning(T0)[0]


def _warned(objective: float, interval: float) -> int:
    slo = Slo("s", "chat", "availability", "canary", objective, MONTH, PAIRS)
    return sum("one failed canary" in warning for warning in warnings(slo, interval))


def _transitions(objective: float, per_hour: float, at_least: int, months: int) -> float:
    """How often a month the fast pair begins to fire; looked at each minute in which it can: one with a bad event in
    the short window, or while it fires. An hour of good traffic comes first.
    """
    dice, found, minutes = random.Random(7), 0, int(MONTH / 60)  # noqa: S311  a story
    for month in range(months):
        began = T0 + month * 100 * DAY
        canaries, due, last_bad, was = (
            Canaries(objective, PAIRS[:1], at_least, began - 4 * DAY),
            began - HOUR,
            0.0,
            False,
        )
        for minute in range(minutes + 1):
            at = began + 60 * minute
            while due <= at:
                is_ok = due < began or dice.random() >= 1 - objective
                canaries.send(due, is_ok=is_ok)
                last_bad = last_bad if is_ok else due
                due += dice.expovariate(per_hour / HOUR)
            if was or at - last_bad <= PAIRS[0].short_seconds:
                fires = canaries.fires(at)
                found, was = found + (fires and not was), fires
    return found / months


def _alike(story: Story, before: float | None) -> bool:
    now = story.status().budget.remaining_ratio
    return now is not None and before is not None and abs(now - before) < 1e-4


def _word(pair: BurnPair) -> str:
    return f"{pair.severity} {pair.long_seconds / HOUR:g}h"
