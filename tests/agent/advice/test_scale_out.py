"""Scaling out: only for a queue that stands under a burning TTFT page, and only by what is proven."""

from dataclasses import replace

import pytest
from fake_engine import FakeEngine, no_page

from agent.advice.scale_out import measured_load
from agent.model import BurnPair, Recommendation, SliName, Slo
from agent.plan import AdvicePlan, Plan
from agent.sli.count import TargetFacts
from agent.tick import Memory, tick

T0 = 1_800_000_000.0
FAST = BurnPair("page", "fast", 300.0, 3_600.0, 14.4)
TICKET = BurnPair("ticket", "trend", 300.0, 3_600.0, 14.4)
KEYS = {"requests_waiting", "arrival_rate_per_second", "served_rate_per_second", "burn_rate:s"}


def plan_of(sli: SliName = "ttft", pair: BurnPair = FAST, replicas: int = 2, **advice: object) -> Plan:
    slo = Slo("s", "chat", sli, "engine", 0.99, 30 * 86_400.0, (pair,), 2.5)
    facts = TargetFacts("m", "aggregated", None, dollars_per_second=0.001)
    targets = {f"vllm-{number}": facts for number in range(replicas)}
    return Plan((slo,), targets, advice=AdvicePlan(**advice))  # type: ignore[arg-type]


def watching() -> Memory:
    """The memory of an agent that has seen an idle hour."""
    memory = Memory()
    memory.windows.events["s"].begin(T0 - 3_600)
    return memory


def advised(
    plan: Plan, growth: float = 20.0, ttft: float = 7.0, served: float = 40.0, waiting: float = 50.0, steps: int = 40
) -> list[Recommendation]:
    """What is advised while each replica serves so many requests in 10 s and its queue grows by `growth` in 10 s.

    Seven run at once: eight that never change look like a cap on the batch, which another rule would raise first.
    """
    memory, found = watching(), []
    engines = [FakeEngine(name, waiting=waiting, running=7) for name in plan.targets]
    for step in range(steps):
        for engine in engines:
            memory.windows.take(engine.reading(T0 + 10 * step))
            engine.finish(served, ttft=ttft)
            engine.generated += 1
            engine.waiting += growth
        found += tick(plan, memory, T0 + 10 * step).changed_recommendations
    return found


def test_a_queue_that_grows_under_a_burning_ttft_page_asks_for_replicas() -> None:
    """Both serve 4/s, and 2/s more arrive at each: 12 / 4 = 3 replicas at the limit, 3 / 0.8 = 4 with room."""
    best = advised(plan_of())[-1]
    assert (best.action, best.current, best.proposed, best.low) == ("scale", 2, 4, 3)
    assert best.low <= best.proposed <= best.high
    assert (best.reason_code, best.binding, best.model, best.role) == ("sustained_queueing", "queue", "m", "aggregated")
    values = {evidence.signal: evidence.value for evidence in best.evidence}
    assert set(values) >= KEYS
    assert values["served_rate_per_second"] == pytest.approx(8.0)
    assert values["arrival_rate_per_second"] == pytest.approx(12.0)
    assert best.alternatives[0]["dollars_per_hour"] == pytest.approx(0.001 * 3600 * best.low)
    assert best.do_nothing["meets_slo"] is False
    assert "from 2 to 4" in best.summary


@pytest.mark.parametrize(
    ("why", "plan", "load"),
    [
        ("no queue", plan_of(), {"growth": 0.0, "waiting": 0.0}),
        ("TTFT is kept", plan_of(), {"ttft": 0.2, "growth": 0.0, "waiting": 1.0}),
        ("the SLO is about pace", plan_of("tpot"), {}),
        ("only a ticket burns", plan_of(pair=TICKET), {}),
        ("no more replicas are allowed", plan_of(max_replicas=2), {}),
        ("fewer than there are were allowed", plan_of(max_replicas=1), {}),
        ("another SLO drives scaling", plan_of(slo_names=("other",)), {}),
        ("nothing is served: more of it serves nothing", plan_of(), {"served": 0.0}),
    ],
)
def test_no_advice_when(why: str, plan: Plan, load: dict[str, float]) -> None:
    assert advised(plan, **load) == [], why


def test_a_queue_of_seconds_is_not_sustained() -> None:
    """With 10 s between pages: nothing is advised before a minute of them."""
    first = advised(plan_of())[0]
    assert first.at_seconds == T0 + 60


def test_a_limit_on_replicas_bounds_every_figure() -> None:
    best = advised(plan_of(max_replicas=3))[-1]
    assert (best.low, best.proposed, best.high) == (3, 3, 3)


def test_a_growing_queue_asks_for_more_and_the_same_advice_is_not_repeated() -> None:
    """With ten times the growth, 2 x (4 + 20)/s arrive: 12 replicas at their limit."""
    calm, wild = advised(plan_of()), advised(plan_of(), growth=200.0)
    assert len([entry for entry in calm if entry.verdict is None]) == 1
    assert wild[-1].low == 12
    assert wild[-1].proposed > calm[-1].proposed


def test_a_page_without_the_queue_is_no_empty_queue() -> None:
    """One of the two replicas does not tell how many wait: then nobody knows what is asked of both."""
    plan, memory = plan_of(), watching()
    told, silent = FakeEngine("vllm-0", waiting=50, running=7), FakeEngine("vllm-1", waiting=50, running=7)
    for step in range(40):
        at = T0 + 10 * step
        memory.windows.take(told.reading(at))
        whole = silent.reading(at)
        known = tuple(sample for sample in whole.samples if sample.signal != "requests_waiting")
        memory.windows.take(replace(whole, samples=known))
        for engine in (told, silent):
            engine.finish(40, ttft=7.0)
            engine.waiting += 20
        assert tick(plan, memory, at).changed_recommendations == ()


def test_replicas_that_do_not_answer_count_as_replicas_and_lower_the_confidence() -> None:
    """Three should serve, one is down: the two others serve 4/s each. `current` is 3, not 2."""
    plan, memory = plan_of(replicas=3), watching()
    engines = [FakeEngine(f"vllm-{number}", waiting=50, running=7) for number in range(2)]
    found: list[Recommendation] = []
    for step in range(40):
        memory.windows.take(no_page(T0 + 10 * step, target="vllm-2"))
        for engine in engines:
            memory.windows.take(engine.reading(T0 + 10 * step))
            engine.finish(40, ttft=7.0)
            engine.waiting += 20
        found += tick(plan, memory, T0 + 10 * step).changed_recommendations
    assert found[-1].current == 3
    assert found[-1].confidence <= round(0.7 * 2 / 3, 2)
    assert "2 replicas (of 3; the others do not answer)" in found[-1].summary


def test_a_replica_that_has_just_come_does_not_dilute_the_proven_rate() -> None:
    """Each serves 4/s; one has been seen for 2 minutes of the 5. Together they serve 8/s, not less."""
    plan, memory = plan_of(), watching()
    old, young = FakeEngine("vllm-0", waiting=50, running=7), FakeEngine("vllm-1", waiting=50, running=7)
    for step in range(60):
        for engine in (old, young)[: 1 if step < 48 else 2]:
            memory.windows.take(engine.reading(T0 + 10 * step))
            engine.finish(40, ttft=7.0)
            engine.waiting += 20
        effects = tick(plan, memory, T0 + 10 * step)
    load = measured_load(effects.snapshot.targets, memory.windows, T0 + 590)
    assert load is not None
    assert load.served_rate == pytest.approx(8.0)
    assert load.covered_ratio == pytest.approx(110 / 300)


def test_what_came_before_the_queue_dilutes_no_rate() -> None:
    """150 s of 1/s and no queue, then 4/s at the limit and 2/s more arriving: limit 4/s, arrivals 6/s."""
    memory, plan = watching(), plan_of(replicas=1)
    engine = FakeEngine("vllm-0", running=7)
    for step in range(31):
        memory.windows.take(engine.reading(T0 + 10 * step))
        engine.finish(10 if step < 15 else 40, ttft=7.0)
        engine.waiting += 0 if step < 15 else 20
        effects = tick(plan, memory, T0 + 10 * step)
    load = measured_load(effects.snapshot.targets, memory.windows, T0 + 300)
    assert load is not None
    assert load.limit_rate == pytest.approx(4.0)
    assert load.arrival_rate == pytest.approx(6.0)


def test_a_queue_that_drains_by_itself_needs_no_replica() -> None:
    """1,000 wait and 10/s more are served than arrive: gone in 100 s, long before another replica would serve."""
    assert advised(plan_of(replicas=1), growth=-100.0, served=150.0, waiting=4_100.0) == []


def test_nothing_is_advised_while_a_replica_has_just_come() -> None:
    """It fills its empty batch from the queue of the others: for some minutes its growth is no arrivals."""
    plan, memory = plan_of(replicas=3), watching()
    engines = [FakeEngine(f"vllm-{number}", waiting=50, running=7) for number in range(3)]
    advised_at = []
    for step in range(90):
        present = engines[: 2 if step < 40 else 3]
        for engine in present:
            memory.windows.take(engine.reading(T0 + 10 * step))
            engine.finish(40, ttft=7.0)
            engine.waiting += 20 if step < 40 else 200
        known = replace(plan, targets={engine.target: plan.targets[engine.target] for engine in present})
        if tick(known, memory, T0 + 10 * step).changed_recommendations:
            advised_at.append(step)
    assert [step for step in advised_at if 40 <= step < 60] == []
    assert [step for step in advised_at if step >= 60]


def test_data_parallel_engines_are_one_replica() -> None:
    """One target with 8 engines serves 8/s at its limit and gets 8.8/s: two replicas, not eleven."""
    plan, memory = plan_of(replicas=1), watching()
    engines = [FakeEngine("vllm-0", engine=str(rank), waiting=5, running=7) for rank in range(8)]
    for step in range(40):
        pages = [engine.reading(T0 + 10 * step) for engine in engines]
        samples = tuple(sample for page in pages for sample in page.samples)
        histograms = tuple(histogram for page in pages for histogram in page.histograms)
        memory.windows.take(replace(pages[0], samples=samples, histograms=histograms))
        for engine in engines:
            engine.finish(10, ttft=7.0)
            engine.waiting += 1
        effects = tick(plan, memory, T0 + 10 * step)
    (advice,) = effects.snapshot.recommendations
    assert (advice.current, advice.proposed) == (1, 2)


def test_a_rate_read_off_a_handful_of_requests_is_not_proven() -> None:
    """One request in 50 s: a sick replica, and no reason to buy 63 more of it."""
    assert advised(plan_of(replicas=1), served=0.2, growth=5.0) == []


def test_replicas_that_do_not_answer_are_brought_back_first() -> None:
    plan, memory = plan_of(replicas=2), watching()
    engine = FakeEngine("vllm-0", waiting=50, running=7)
    for step in range(40):
        memory.windows.take(no_page(T0 + 10 * step, target="vllm-1"))
        memory.windows.take(engine.reading(T0 + 10 * step))
        engine.finish(40, ttft=7.0)
        engine.waiting += 20
        effects = tick(plan, memory, T0 + 10 * step)
    assert effects.snapshot.recommendations[0].steps[0].startswith("first bring back vllm-1")
