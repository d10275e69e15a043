"""The load as signals: arrivals counted from what ended and what is inside, bursts, lengths, reuse, season."""

import random
from dataclasses import replace

import pytest

from agent.increment import joined
from agent.model import Counts, Events
from agent.signals.model import Workload
from agent.signals.sums import add_up
from agent.signals.workload import workload
from agent.stats.buckets import Buckets
from agent.stats.time_buckets import TimeBuckets
from agent.windows import EngineKey, Increment

T0, DAY = 1_800_000_000.0, 86_400.0
KEY = EngineKey("a", "vllm", "0", "m")


def step(place: int, came: float, running: float = 4.0, ended: float | None = None, **more: object) -> Increment:
    """Ten seconds in which so many came (and ended, unless said)."""
    given = {"hits": 0.0, "asked": 0.0, "firsts": came, "key": KEY, "waiting": 0.0, **more}
    return Increment(
        given["key"],  # type: ignore[arg-type]
        T0 + 10 * place,
        T0 + 10 * place + 10,
        {
            ("requests_finished_total", "stop"): came if ended is None else ended,
            ("prefix_cache_hit_tokens_total", ""): given["hits"],  # type: ignore[dict-item]
            ("prefix_cache_queried_tokens_total", ""): given["asked"],  # type: ignore[dict-item]
        },
        {
            "ttft_seconds": Buckets((1.0, float("inf")), (given["firsts"], 0.0), None),  # type: ignore[arg-type]
            "request_prompt_tokens": Buckets((100.0, 200.0, float("inf")), (0.0, came, 0.0), 150 * came),
        },
        {("requests_running", ""): running, ("requests_waiting", ""): given["waiting"]},  # type: ignore[dict-item]
        restarted=False,
    )


def load(increments: list[Increment], events: TimeBuckets | None = None) -> Workload:
    return workload(add_up(increments), increments, events, increments[-1].to_seconds)


def test_arrivals_are_what_ended_and_what_is_newly_inside() -> None:
    """4 inside at first, then 5 end and 3 more are inside: 8 came. The first reading has none before it."""
    found = load([step(0, 0), step(1, 0, running=5.0, waiting=2.0, ended=5.0)])
    assert found.arrivals_per_second == pytest.approx(8 / 20)


def test_a_reading_whose_last_page_lacks_the_queue_is_none_of_the_concurrency() -> None:
    """Two readings that were joined: the first page told what is inside, the second did not."""
    lacking = replace(step(1, 1), gauges={})
    both = joined([step(0, 1), lacking])
    found = load([step(-1, 1, running=7.0), both])
    assert found.concurrency is not None
    assert found.concurrency.mean == 7


def test_a_steady_stream_has_no_bursts_and_a_random_one_is_poisson() -> None:
    draw = random.Random(3)  # noqa: S311  a fixed seed
    steady = load([step(place, 5.0) for place in range(100)])
    poisson = load([step(place, float(sum(draw.random() < 0.05 for _ in range(100)))) for place in range(360)])
    bursts = load([step(place, 50.0 if place % 10 == 0 else 0.0) for place in range(360)])
    assert steady.arrival_burstiness == pytest.approx(0.0)
    assert poisson.arrival_burstiness is not None
    assert 0.6 < poisson.arrival_burstiness < 1.5
    assert bursts.arrival_burstiness is not None
    assert bursts.arrival_burstiness > 10


def test_a_trend_is_the_slope_over_the_mean() -> None:
    """From 10 to 20 requests in an hour: 10 of a mean of 15."""
    found = load([step(place, 10 + place / 36) for place in range(360)])
    assert found.arrival_trend_ratio_per_hour == pytest.approx(10 / 15, rel=0.01)
    assert load([step(place, 10.0) for place in range(90)]).arrival_trend_ratio_per_hour is None, "too short"


def test_lengths_and_concurrency() -> None:
    found = load([step(place, 5.0, running=6.0, waiting=1.0) for place in range(10)])
    assert found.prompt_tokens is not None
    assert found.prompt_tokens.mean == pytest.approx(150)
    assert found.prompt_tokens.p50 is not None
    assert (found.prompt_tokens.p50.low, found.prompt_tokens.p50.high) == (100, 200)
    assert found.concurrency is not None
    assert found.concurrency.mean == 7
    assert found.output_tokens is None


@pytest.mark.parametrize("kind", ["none", "shared_prefix", "multi_turn"])
def test_kinds_of_reuse(kind: str) -> None:
    """Prompts of 500 to 1,500 tokens; all share 300, or four fifths of each were said before, or nothing was."""
    draw = random.Random(5)  # noqa: S311  a fixed seed
    increments = []
    for place in range(60):
        prompts = [draw.uniform(500, 1500) for _ in range(5)]
        hits = {"none": 0.0, "shared_prefix": 300.0 * 5, "multi_turn": 0.8 * sum(prompts)}[kind]
        increments.append(step(place, 5.0, hits=hits, asked=sum(prompts)))
    assert load(increments).reuse_kind == kind


def test_of_equal_prompts_the_kind_cannot_be_told() -> None:
    assert load([step(place, 5.0, hits=1500.0, asked=5000.0) for place in range(60)]).reuse_kind == "unclear"


def test_the_same_hour_of_days_before() -> None:
    """100 a second now, 80 a day before, 50 a week before; a history of two days knows nothing of last week."""
    events = TimeBuckets()
    for day, rate in ((8, 50.0), (7, 50.0), (2, 80.0), (1, 80.0), (0, 100.0)):
        events.add(Events(T0 - day * DAY - 3_600, T0 - day * DAY + 3_600, Counts(7_200 * rate)))
    steps = [step(place, 5.0) for place in range(60)]
    assert load(steps, events).arrivals_over_yesterday_ratio == pytest.approx(1.25)
    assert load(steps, events).arrivals_over_last_week_ratio == pytest.approx(2.0)
    young = TimeBuckets()
    young.add(Events(T0 - 2 * DAY, T0 + 3_600, Counts(100.0)))
    assert load(steps, young).arrivals_over_last_week_ratio is None
    assert load(steps).arrivals_over_yesterday_ratio is None


def test_an_idle_engine_has_no_load_and_no_shape() -> None:
    found = load([step(place, 0.0, running=0.0) for place in range(60)])
    assert (found.arrivals_per_second, found.arrival_burstiness, found.arrival_trend_ratio_per_hour) == (0, None, None)
