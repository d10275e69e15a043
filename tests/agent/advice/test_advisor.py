"""The advisor: what it remembers is of targets that are watched, and of times that were."""

from collections import deque

import pytest

from agent.advice.advisor import Advisor
from agent.advice.forecast import DAY_BINS
from agent.model import TargetStatus
from agent.plan import Plan
from agent.sli.count import TargetFacts
from agent.stats.buckets import Buckets
from agent.windows import EngineKey, Increment, Windows

T0 = 1_800_000_000.0
GROUP = ("m", "aggregated")


def look(advisor: Advisor, target: str, at: float, requests: float = 10.0) -> None:
    """One reading of the only target there is, ten seconds after the one before, and a tick."""
    increment = Increment(
        EngineKey(target, "vllm", "0", "m"), at - 10.0, at, {},
        {"ttft_seconds": Buckets((1.0, float("inf")), (requests, 0.0), 1.0)},
        {("requests_waiting", ""): 0.0, ("kv_capacity_tokens", ""): 1_000.0}, restarted=False,
    )  # fmt: skip
    plan = Plan(targets={target: TargetFacts("m", "aggregated", None)})
    advisor.take(plan, [TargetStatus(target, "vllm", "up", at, "ok", "", "m", "aggregated")], [increment], at)


def test_replicas_that_come_and_go_leave_nothing_of_their_own() -> None:
    """Pods have new names for ever: of a thousand that went, the advisor must not keep a thousand pages."""
    advisor = Advisor()
    for pod in range(20):
        look(advisor, f"vllm-{pod}", T0 + 10.0 * pod)
    book = advisor.capacity
    assert {key.target for key in (*book._samplers, *book._before)} == {"vllm-19"}
    assert {kind.model for kind in book.learned} == {"m"}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_where_the_clock_is_set_back_advice_is_of_now(is_restarted: bool) -> None:  # noqa: FBT001
    """By an hour: the load of the hour to come, which never was, must not pass for that of now."""
    advisor = Advisor()
    for step in range(12):
        look(advisor, "vllm-0", T0 + 10.0 * step)
    assert advisor.groups[GROUP].demand.rates(3) == [1.0, 1.0, 1.0]
    if is_restarted:
        outline = advisor.outline(Windows(), T0 + 110.0)
        advisor = Advisor.restored(outline, advisor.capacity.learned, advisor.groups)
    for step in range(12):
        look(advisor, "vllm-0", T0 - 3_600.0 + 10.0 * step, requests=40.0)
    assert advisor.groups[GROUP].demand.rates(3) == [4.0, 4.0, 4.0]
    forecast = advisor.groups[GROUP].forecaster.forecast()
    assert forecast is not None
    assert forecast.q50 > 3.0


def test_a_late_tick_is_no_clock_set_back() -> None:
    advisor = Advisor()
    for step in range(12):
        look(advisor, "vllm-0", T0 + 10.0 * step)
    look(advisor, "vllm-0", T0 + 105.0)
    assert advisor.groups[GROUP].demand.rates(3)[:2] == [1.0, 1.0]


def test_a_cold_start_of_days_is_looked_no_further_ahead_than_a_day() -> None:
    """A pod that waited for three days for a GPU, or a clock that leapt: nothing is known of so far ahead."""
    advisor = Advisor(leads={GROUP: deque([3 * 86_400.0])})
    look(advisor, "vllm-0", T0)
    forecaster = advisor.groups[GROUP].forecaster
    forecaster.rates.extend([1.0] * (DAY_BINS + 100))
    forecaster.take(1.0)
    assert forecaster.horizon_bins == DAY_BINS
    assert forecaster.forecast() is not None
