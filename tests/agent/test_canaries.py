"""Canaries as the agent sends them: what users' pages say holds the dear ones back, and every run has a result."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from fake_engine import FakeEngine

from agent.canaries import Canaries, pressure_on
from agent.config import Config
from agent.living import LivingView
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.tick import Memory
from probes.canary.gate import Pressure
from probes.canary.task import Elsewhere, ProbeTask, unrun
from probes.clock import SystemClock
from probes.sample import ProbeResult, Reading, Sample, SentRequest


@dataclass
class FakeProcess:
    """Answers every task well, and keeps it."""

    tasks: list[ProbeTask] = field(default_factory=list)
    sent: tuple[SentRequest, ...] = ()

    async def probe(self, task: ProbeTask) -> ProbeResult:
        self.tasks.append(task)
        return replace(unrun(task, "ok", 0.0, ""), timing_error_seconds=0.001, sent=self.sent)


def page(at: float, engine: str, **values: float) -> Reading:
    kinds = {"requests_waiting": "gauge", "kv_usage_ratio": "gauge"}
    samples = [Sample(name, kinds.get(name, "counter"), engine, "m", value) for name, value in values.items()]  # type: ignore[arg-type]
    return Reading("a", "vllm", at, samples=tuple(samples))


def canaries(config: Config) -> tuple[Canaries, FakeProcess]:
    clock, process = SystemClock(), FakeProcess()
    view = LivingView(config, Plan((), {}), Memory(), clock)
    return Canaries(clock, view, process), process  # type: ignore[arg-type]


def a_config(**more: object) -> Config:
    kinds = [{"kind": "chat"}, {"kind": "long_prompt"}]
    return Config.model_validate({"targets": [{"name": "a", "url": "http://a:1"}], "canaries": kinds, **more})


def test_pressure_is_what_the_last_pages_say_and_unknown_without_one() -> None:
    """Two engines on two pages: 1 + 2 wait, the fuller cache counts; 40 + 60 tokens came between the pages."""
    view = LivingView(a_config(), Plan((), {}), Memory(), SystemClock())
    assert pressure_on(view.memory.windows, "a", 100.0) == Pressure()
    for at, tokens in ((10.0, 0.0), (20.0, 100.0)):
        engines = [
            page(at, "0", requests_waiting=1, kv_usage_ratio=0.5, prompt_tokens_total=0.4 * tokens),
            page(at, "1", requests_waiting=2, kv_usage_ratio=0.7, generation_tokens_total=0.6 * tokens),
        ]
        view.memory.windows.take(replace(engines[0], samples=engines[0].samples + engines[1].samples))
    assert pressure_on(view.memory.windows, "a", 100.0) == Pressure(3, 0.7, 100)
    assert pressure_on(view.memory.windows, "b", 100.0) == Pressure()


@pytest.mark.parametrize(
    ("limits", "outcomes"),
    [
        ({}, ["ok", "ok"]),
        ({"enabled": False}, ["skipped_paused"] * 2),
        ({"tokens_per_hour": 100}, ["ok", "skipped_budget"]),
    ],
)
async def test_every_run_has_a_result_with_its_planned_time(limits: dict[str, object], outcomes: list[str]) -> None:
    config = a_config(canary_limits=limits)
    sent, process = canaries(config)
    results = [await sent.run(item, config.targets[0], config, 5.0) for item in config.canaries]
    assert [result.outcome for result in results] == outcomes
    assert [result.planned_at_seconds for result in results] == [5.0, 5.0]
    assert len(process.tasks) == outcomes.count("ok")


async def test_the_model_is_what_the_page_says_where_nobody_names_one() -> None:
    config = a_config()
    sent, process = canaries(config)
    sent.view.memory.windows.take(replace(FakeEngine().reading(1.0), target="a"))
    await sent.run(config.canaries[0], config.targets[0], config, 5.0)
    await sent.ask(config.targets[0], "asked", config)
    assert [task.model for task in process.tasks] == ["m", "asked"]


async def test_of_a_fleet_the_owner_alone_sends_and_the_others_say_who_does() -> None:
    outcomes, sent_by = [], []
    for member in ("a", "b"):
        config = a_config(fleet={"member": member, "members": ["a", "b"]})
        sent, process = canaries(config)
        result = await sent.run(config.canaries[0], config.targets[0], config, 5.0)
        outcomes.append(result.outcome)
        sent_by += [member] * len(process.tasks)
        said = result.detail
    assert sorted(outcomes) == ["ok", "skipped_not_owner"]
    assert len(sent_by) == 1
    assert said in ("", f"{sent_by[0]} probes this target")


async def test_ranks_take_turns() -> None:
    config = a_config(canaries=[{"kind": "chat", "ranks": True, "interval_seconds": 10}])
    sent, process = canaries(config)
    pages = [page(1.0, engine, requests_waiting=0) for engine in ("0", "1")]
    sent.view.memory.windows.take(replace(pages[0], samples=pages[0].samples + pages[1].samples))
    for planned in (0.0, 10.0, 20.0):
        await sent.run(config.canaries[0], config.targets[0], config, planned)
    assert [task.rank for task in process.tasks] == ["0", "1", "0"]


async def test_a_rank_that_hangs_does_not_take_the_turn_of_the_other() -> None:
    """Its runs last two intervals, and those between are missed: every other run that is sent is the other rank's."""
    config = a_config(canaries=[{"kind": "chat", "ranks": True, "interval_seconds": 10}])
    sent, process = canaries(config)
    pages = [page(1.0, engine, requests_waiting=0) for engine in ("0", "1")]
    sent.view.memory.windows.take(replace(pages[0], samples=pages[0].samples + pages[1].samples))
    for planned in (0.0, 20.0, 40.0, 60.0):
        await sent.run(config.canaries[0], config.targets[0], config, planned)
    assert [task.rank for task in process.tasks] == ["0", "1", "0", "1"]


async def test_every_rank_is_asked_every_question() -> None:
    config = a_config(canaries=[{"kind": "correctness", "ranks": True}])
    sent, process = canaries(config)
    pages = [page(1.0, engine, requests_waiting=0) for engine in ("0", "1", "2")]
    everyone = tuple(sample for one in pages for sample in one.samples)
    sent.view.memory.windows.take(replace(pages[0], samples=everyone))
    for _ in range(9):
        await sent.run(config.canaries[0], config.targets[0], config, 0.0)
    assert len({(task.rank, task.expected) for task in process.tasks}) == 9


def shared(**more: object) -> Config:
    pair = {"kind": "kv_reuse", "targets": ["a"], "warm_target": "b", "prompt_tokens": 100}
    targets = [{"name": "a", "url": "http://a:1"}, {"name": "b", "url": "http://b:1", "model": "n"}]
    return Config.model_validate({"targets": targets, "canaries": [pair], **more})


async def test_a_pair_over_two_instances_waits_for_both_and_is_spent_on_both() -> None:
    config = shared()
    sent, process = canaries(config)
    async with sent.gate.turn("b"):
        waiting = asyncio.create_task(sent.run(config.canaries[0], config.targets[0], config, 5.0))
        await asyncio.sleep(0.01)
        assert process.tasks == []
    result = await waiting
    (task,) = process.tasks
    assert (task.target, result.target, task.elsewhere) == ("a", "a", Elsewhere("b", "http://b:1", "n"))
    now = SystemClock().now_seconds()
    cost = config.canaries[0].cost().tokens
    assert (sent.gate.spent_tokens("a", now), sent.gate.spent_tokens("b", now)) == (cost, cost // 2)


async def test_users_who_wait_at_the_other_instance_hold_the_pair_back() -> None:
    config = shared()
    sent, process = canaries(config)
    sent.view.memory.windows.take(replace(page(1.0, "0", requests_waiting=3), target="b"))
    result = await sent.run(config.canaries[0], config.targets[0], config, 5.0)
    assert (result.outcome, result.detail) == ("skipped_pressure", "b: 3 requests wait")
    assert process.tasks == []


async def test_each_instance_is_told_without_its_own_half() -> None:
    """What the cold half was is looked for on its own target's pages, and the warm half on the other's."""
    config = shared()
    sent, process = canaries(config)
    halves = tuple(SentRequest(12.0, 12.5, "m", 12.2, ttft_seconds=0.2, target=name) for name in ("a", "b"))
    process.sent = halves
    facts = TargetFacts("m", "aggregated", "chat")
    sent.view.plan = Plan((), {"a": facts, "b": facts})
    await sent.run(config.canaries[0], config.targets[0], config, 5.0)
    own = sent.view.memory.windows.own
    assert [list(own._targets[name].requests) for name in ("a", "b")] == [[halves[0]], [halves[1]]]
    assert [own._targets[name].flying for name in ("a", "b")] == [[], []]


async def test_72_a_sleeping_engine_is_left_asleep() -> None:
    """It answers /health and serves nobody; its front end may still be asked for its models."""
    config = a_config(canaries=[{"kind": "chat"}, {"kind": "models"}])
    sent, process = canaries(config)
    states = {"awake": 0.0, "discard_all": 1.0}
    asleep = [Sample("engine_sleep_state", "gauge", "0", "m", value, state) for state, value in states.items()]
    sent.view.memory.windows.take(Reading("a", "vllm", 1.0, samples=tuple(asleep)))
    results = [await sent.run(canary, config.targets[0], config, 5.0) for canary in config.canaries]
    assert [result.outcome for result in results] == ["sleeping", "ok"]
    assert [task.kind for task in process.tasks] == ["models"]


async def test_engines_that_left_the_page_steer_nothing() -> None:
    """The server came back with one rank instead of two: nobody is asked for the second, and its queue is gone."""
    config = a_config(canaries=[{"kind": "chat", "ranks": True, "interval_seconds": 10}])
    sent, process = canaries(config)
    windows = sent.view.memory.windows
    before = [page(1.0, engine, requests_waiting=5, kv_usage_ratio=1.0) for engine in ("0", "1")]
    windows.take(replace(before[0], samples=before[0].samples + before[1].samples))
    windows.take(page(11.0, "0", requests_waiting=0, kv_usage_ratio=0.1))
    for planned in (20.0, 30.0):
        await sent.run(config.canaries[0], config.targets[0], config, planned)
    assert [task.rank for task in process.tasks] == ["", ""]
    assert pressure_on(windows, "a", 20.0) == Pressure(0, 0.1)


async def test_an_engine_that_sleeps_under_a_new_name_is_left_asleep() -> None:
    """Restarted with another model and put to sleep; that the one before was awake says nothing of it."""
    config = a_config()
    sent, process = canaries(config)
    for at, model, awake in ((1.0, "m", 1.0), (11.0, "n", 0.0)):
        state = Sample("engine_sleep_state", "gauge", "0", model, awake, "awake")
        sent.view.memory.windows.take(Reading("a", "vllm", at, samples=(state,)))
    result = await sent.run(config.canaries[0], config.targets[0], config, 20.0)
    assert (result.outcome, process.tasks) == ("sleeping", [])


async def test_replicas_behind_one_page_are_no_ranks() -> None:
    """The header takes a number; which replica a gateway asks cannot be said with it."""
    config = a_config(canaries=[{"kind": "chat", "ranks": True, "interval_seconds": 10}])
    sent, process = canaries(config)
    pages = [page(1.0, engine, requests_waiting=0) for engine in ("pod-a/0", "pod-b/0")]
    sent.view.memory.windows.take(replace(pages[0], samples=pages[0].samples + pages[1].samples))
    await sent.run(config.canaries[0], config.targets[0], config, 5.0)
    assert [task.rank for task in process.tasks] == [""]
