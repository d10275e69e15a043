"""Tables H, J and L of facts/slo.md, section 7: restarts, what a config may say, and what a `for` costs."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from conformance_row import Row, holds, near, same
from conformance_world import DAY, HOUR, MINUTE, MONTH, T0, Story
from state_child import config as state_config

from agent.config_file import parse_config
from agent.errors import ConfigError
from agent.foresight import warnings
from agent.keeping import Keeper
from agent.model import BurnPair, Slo
from agent.planning import make_plan
from agent.tick import Memory

PYRRA_PAIRS = (  # of 28 days, without its `for` of 2m, 15m, 1h, 3h
    BurnPair("page", "fast", 300, HOUR, 14),
    BurnPair("page", "slow", 1800, 6 * HOUR, 7),
    BurnPair("ticket", "slow", 2 * HOUR, DAY, 2),
    BurnPair("ticket", "trend", 6 * HOUR, 4 * DAY, 1),
)
WITH_FOR = ("170 s, 7.0 %", "1051 s, 43.5 %", "3773 s, 156 %", "11146 s, 461 %")


def restarts() -> Iterator[Row]:
    """H: the file that is kept, opened again."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        story = Story(began=T0 - 4 * DAY).serve(4 * DAY - HOUR, 10).serve(HOUR, 10, 1.0)
        before = story.status()
        firing = dict(story.memory.alerts.firing)
        _saved(story, path)
        story.memory = _reopened(story, path)
        after = story.status(T0 + 1)
        yield same(
            "H",
            "remaining budget before and after",
            before.budget.remaining_ratio,
            story.status(T0).budget.remaining_ratio,
        )
        kept = story.memory.alerts.firing
        yield same("H", "firing alerts keep labels and startsAt", _starts(firing), _starts(kept))
        story.happen(100, 20)
        story.look(T0 + 60)
        changed = story.status().budget.counts.total - after.budget.counts.total
        yield near("H", "events in the minute away are counted at the next page", 120, changed)
        story.look(T0 - HOUR)
        status = story.status(T0 - HOUR)
        least = min(min(b.long_counts.good, b.long_counts.bad, b.long_counts.total) for b in status.burns)
        yield holds("H", "clock set back by 1 h: no negative window", is_so=least >= 0)
        path.write_bytes(b"this is no database " * 99)
        lost = Story(began=T0)
        lost.memory = _reopened(lost, path)
        lost.look(T0 + 60).serve(60, 10)
        found = lost.status()
        names = {alert.name for alert in lost.memory.alerts.firing.values()}
        yield same(
            "H",
            "a damaged file: budget, and SLOStateLost",
            "None, True",
            f"{found.budget.remaining_ratio}, {'SLOStateLost' in names}",
        )
    changed_objective = Story(0.999).serve(MONTH - HOUR, 10).serve(HOUR, 10, 0.01)
    changed_objective.status()
    changed_objective.plan = Story(0.99).plan
    yield near("H", "objective 99.9 % made 99 %: history kept, % spent", 100 / 720, changed_objective.spent_percent())


def configs() -> Iterator[Row]:
    """J: what is refused, and what is warned of."""
    yield same(
        "J",
        "objective_ratio 1, 0, 99.9: refused",
        "refused, refused, refused",
        ", ".join(_parsed(f"objective_ratio: {x}") for x in (1, 0, 99.9)),
    )
    windows = "burn: {windows: [{severity: page, tier: fast, short_seconds: %s, long_seconds: %s, factor: %s}]}"
    yield same(
        "J",
        "a factor below 1; a short window as long as the long one",
        "refused, refused",
        ", ".join(_parsed("objective_ratio: 0.99", windows % row) for row in ((300, 3600, 0.9), (3600, 3600, 2))),
    )
    loose = Slo("s", "chat", "tpot", "engine", 0.9, MONTH, (BurnPair("page", "fast", 300, HOUR, 14.4),), 0.05)
    yield holds("J", "90 % with a factor of 14.4: warned that it never fires", is_so=_warned(loose, "never fire"))
    between = Slo("s", "chat", "ttft", "engine", 0.99, MONTH, (), threshold_seconds=2.0)
    yield holds("J", "TTFT 2 s: warned that it lies between 1 and 2.5", is_so=_warned(between, "between 1 and 2.5"))
    derived = make_plan(parse_config(_slo("objective_ratio: 0.9"), "c"), ()).slos[0]
    yield holds("J", "90 % without windows of its own: every pair can fire", is_so=not _warned(derived, "never fire"))
    factors = [
        pair.factor
        for pair in make_plan(parse_config(_slo("objective_ratio: 0.999, period_seconds: 2419200"), "c"), ())
        .slos[0]
        .pairs
    ]
    yield holds("J", "28 days: no factor below 1", is_so=min(factors) >= 1)


def without_for() -> Iterator[Row]:
    """L: a full outage at 99.9 % of 28 days; beside it, what the same windows cost with a `for`."""
    for pair, late in zip(PYRRA_PAIRS, WITH_FOR, strict=True):
        detection = pair.long_seconds * pair.factor * 0.001
        wanted = -(-detection // 5) * 5
        story, found = Story(began=T0 - 28 * DAY, pairs=(pair,)).serve(28 * DAY, 1000), 0.0
        while found < wanted + MINUTE and not story.firing():
            story.serve(5, 1000, 1.0).status()
            found += 5
        budget = 100 * found / (28 * DAY * 0.001)
        windows = f"{pair.long_seconds / HOUR:g}h/{pair.short_seconds / 60:g}m above {pair.factor:g}"
        case = f"outage, 28 d, {windows}: detection, budget gone"
        words = f"{wanted:g} s, {100 * wanted / (28 * DAY * 0.001):.2f} %"
        yield same("L", case, words, f"{found:g} s, {budget:.2f} %", other=f"with Pyrra's for: {late}")


def _saved(story: Story, path: Path) -> None:
    async def save() -> None:
        keeper = Keeper(state_config(path).state)
        keeper.open(story.plan, story.now)
        await keeper.save(story.memory, story.plan, story.now)
        keeper.close()

    asyncio.run(save())


def _reopened(story: Story, path: Path) -> Memory:
    keeper = Keeper(state_config(path).state)
    try:
        return keeper.open(story.plan, story.now + 1)
    finally:
        keeper.close()


def _starts(firing: object) -> list[str]:
    return sorted(
        f"{dict(labels).get('tier', 'budget')} {alert.starts_at_seconds:.0f}" for labels, alert in firing.items()
    )  # type: ignore[attr-defined]


def _slo(more: str) -> str:
    return f"slos: [{{name: s, sli: tpot, threshold_seconds: 0.05, {more}}}]\n"


def _parsed(more: str, rest: str = "") -> str:
    try:
        parse_config(_slo(more) + rest, "c")
    except ConfigError:
        return "refused"
    return "taken"


def _warned(slo: Slo, words: str) -> bool:
    return any(words in warning for warning in warnings(slo, None))
