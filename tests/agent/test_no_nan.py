"""Whatever engines and canaries do, no NaN and no infinity leaves the core: what is not known is None."""

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import islice

import pytest
from fake_engine import FakeEngine, no_page

from agent.burn_windows import standard_pairs
from agent.model import SliName, Slo
from agent.plan import Plan
from agent.signals.read import Question, read_signals
from agent.sli.count import TargetFacts
from agent.stats.goodput import GoodputTarget
from agent.tick import Memory, tick
from probes.sample import ProbeResult

T0, MONTH = 1_800_000_000.0, 30 * 86_400.0
SLIS: tuple[SliName, ...] = ("availability", "ttft", "itl", "tpot", "e2e", "queue", "goodput")
LARGE = 2.0**53


def numbers(noun: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a noun of the core, with where it stands."""
    if isinstance(noun, float | int):
        yield path, float(noun)
    elif is_dataclass(noun):
        for field in fields(noun):
            yield from numbers(getattr(noun, field.name), f"{path}.{field.name}")
    elif isinstance(noun, Mapping):
        for key, value in noun.items():
            yield from numbers(value, f"{path}[{key}]")
    elif isinstance(noun, tuple | list):
        for place, value in enumerate(noun):
            yield from numbers(value, f"{path}[{place}]")


def plan() -> Plan:
    limits = {"ttft_seconds": 2.5, "tpot_seconds": 0.05}
    slos = [
        Slo(
            sli, "chat", sli, "engine", ratio, MONTH, standard_pairs(MONTH), 2.5, **(limits if sli == "goodput" else {})
        )
        for sli, ratio in zip(SLIS, (0.999, 0.99, 0.9, 0.5, 0.99999, 0.01, 0.95), strict=True)
    ]
    slos.append(Slo("canary", "chat", "ttft", "canary", 0.99, MONTH, standard_pairs(MONTH), 2.5))
    return Plan(tuple(slos), {name: TargetFacts("m", "aggregated", None) for name in ("a", "b")})


@pytest.mark.parametrize("seed", range(8))
def test_every_number_is_finite(seed: int) -> None:
    """Nothing at all, very much, restarts, counters that fall, clocks that go back, gaps of days."""
    dice, memory, story, now = random.Random(seed), Memory(), plan(), T0  # noqa: S311  a story
    engines = {name: FakeEngine(name) for name in story.targets}
    question = Question(GoodputTarget(2.5, 0.05), [("itl_seconds", 0.1)], 0.001)
    for _ in range(60):
        now += dice.choice((0.0, 1e-9, 0.5, 5.0, 60.0, 4000.0, 3e5, -90.0))
        for name in story.targets:
            if dice.random() < 0.1:
                engines[name] = FakeEngine(name, started_at_seconds=dice.choice((None, now, now - 1e6)))
            engine = engines[name]
            engine.finish(dice.choice((0, 0, 1, 1e6, LARGE, -3)), ttft=dice.choice((0.0, 0.2, 9e9)))
            engine.running, engine.waiting = dice.choice((0, 1, 1e9)), dice.choice((0, 7, 1e12))
            memory.windows.take(no_page(now, name) if dice.random() < 0.2 else engine.reading(now))
            figure = dice.choice((None, 0.0, 1e-12, 3.0, 1e12))
            memory.windows.take_probe(
                ProbeResult(
                    name, "chat", dice.choice(("ok", "missed", "server_error")), now, now, "m", ttft_seconds=figure
                )
            )
        effects = tick(story, memory, now + dice.choice((0.0, 1.0)))
        signals = read_signals(memory.windows, now - dice.choice((1.0, 300.0, 3600.0)), now, list(engines), question)
        odd = [place for noun in (effects, signals) for place in numbers(noun) if not math.isfinite(place[1])]
        assert list(islice(odd, 3)) == []
