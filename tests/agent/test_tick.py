"""`tick()`: a function of what it is given. The same story gives the same effects, word for word."""

import copy
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

import pytest
from fake_engine import FakeEngine, no_page

from agent.burn_windows import standard_pairs
from agent.model import Effects, Slo
from agent.plan import Plan
from agent.signals.read import Question, read_signals
from agent.sli.count import TargetFacts
from agent.stats.goodput import GoodputTarget
from agent.tick import Memory, tick
from probes.sample import ProbeResult

T0, MONTH = 1_800_000_000.0, 30 * 86_400.0
SLOS = (
    Slo("ttft", "chat", "ttft", "engine", 0.99, MONTH, standard_pairs(MONTH), 2.5),
    Slo("up", "chat", "availability", "engine", 0.999, MONTH, standard_pairs(MONTH), 300.0),
    Slo("felt", "chat", "ttft", "canary", 0.99, MONTH, standard_pairs(MONTH), 2.5),
)
PLAN = Plan(SLOS, {f"vllm-{i}": TargetFacts("m", "aggregated", None) for i in range(3)}, node="n1")


def story(memory: Memory, seed: int, steps: int = 120) -> list[Effects]:
    """Three engines at random: good, overloaded, restarting, away."""
    dice, effects = random.Random(seed), []  # noqa: S311  a story
    engines = [FakeEngine(f"vllm-{i}", started_at_seconds=T0 - 100, running=2) for i in range(3)]
    for step in range(steps):
        now = T0 + 10 * step
        for number, engine in enumerate(engines):
            if dice.random() < 0.02:
                engines[number] = FakeEngine(engine.target, started_at_seconds=now - 3)
            elif dice.random() < 0.1:
                memory.windows.take(no_page(now, engine.target))
                continue
            memory.windows.take(engines[number].reading(now))
            engine.finish(dice.randrange(30), ttft=dice.choice((0.2, 0.2, 7.0)), why=dice.choice(("stop", "error")))
            engine.waiting = float(dice.randrange(20))
            outcome = dice.choice(("ok", "ok", "server_error"))
            result = ProbeResult(engine.target, "chat", outcome, now, now + 1, "m", ttft_seconds=dice.random() * 4)
            memory.windows.take_probe(result)
        effects.append(tick(PLAN, memory, now + 2))
    return effects


def test_the_same_readings_give_the_same_effects() -> None:
    assert story(Memory(), 7) == story(Memory(), 7)
    assert story(Memory(), 7) != story(Memory(), 8)


def test_a_copied_memory_goes_on_as_the_first_would_have() -> None:
    """Nothing that decides stands outside the memory."""
    memory = Memory()
    story(memory, 3)
    twin = copy.deepcopy(memory)
    assert tick(PLAN, memory, T0 + 5000) == tick(PLAN, twin, T0 + 5000)


def test_a_second_tick_at_the_same_moment_changes_nothing() -> None:
    memory = Memory()
    last = story(memory, 5)[-1]
    again = tick(PLAN, memory, last.snapshot.at_seconds)
    assert (again.changed_alerts, again.changed_recommendations) == ((), ())
    assert again.snapshot.slos == last.snapshot.slos


def numbers(thing: object) -> Iterator[float]:
    """Every float in a tree of frozen things."""
    if isinstance(thing, float):
        yield thing
    elif is_dataclass(thing):
        for part in fields(thing):
            yield from numbers(getattr(thing, part.name))
    elif isinstance(thing, Mapping):
        for inner in thing.values():
            yield from numbers(inner)
    elif isinstance(thing, list | tuple):
        for inner in thing:
            yield from numbers(inner)


@pytest.mark.parametrize("seed", range(4))
def test_no_nan_and_no_infinity_leaves_the_core(seed: int) -> None:
    memory = Memory()
    effects = story(memory, seed, steps=60)
    now = effects[-1].snapshot.at_seconds
    asked = Question(GoodputTarget(2.5, 0.05), (("ttft_seconds", 2.5), ("ttft_seconds", 400.0)), 0.01)
    signals = [read_signals(memory.windows, now - w, now, list(PLAN.targets), asked) for w in (1, 15, 60, 300, 3600)]
    found = list(numbers([effects, signals]))
    assert len(found) > 1000
    assert all(math.isfinite(number) for number in found)


def test_an_empty_plan_and_no_memory_is_an_empty_world() -> None:
    effects = tick(Plan(), Memory(), T0)
    assert (effects.snapshot.slos, effects.snapshot.targets, effects.snapshot.alerts) == ((), (), ())
