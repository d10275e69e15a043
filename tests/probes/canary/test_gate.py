"""When a canary is not sent, and why; each row is a sentence of docs/canaries.md."""

import asyncio

import pytest

from probes.canary.chat import ChatCanary
from probes.canary.gate import Gate, Pressure
from probes.canary.item import CanaryItem
from probes.canary.limits import CanaryLimits
from probes.canary.long_prompt import LongPromptCanary
from probes.canary.models import ModelsCanary
from probes.sample import ProbeResult

CHAT, MODELS, LONG = ChatCanary(), ModelsCanary(), LongPromptCanary(prompt_tokens=4096)
IDLE = Pressure(requests_waiting=0, kv_usage_ratio=0.1, tokens_last_hour=0)


def result(outcome: str, kind: str = "chat", prompt: int | None = 10, output: int | None = 16) -> ProbeResult:
    return ProbeResult(
        "t", kind, outcome, 0.0, 0.0, prompt_tokens=prompt, output_tokens=output, timing_error_seconds=0.001
    )


def why_not(
    gate: Gate, item: CanaryItem, now: float = 0.0, pressure: Pressure = IDLE, *, is_cheapest: bool = False,
    **limits: object,
) -> str | None:  # fmt: skip
    refusal = gate.refusal(item, "t", CanaryLimits(**limits), pressure, now, is_cheapest=is_cheapest)  # type: ignore[arg-type]
    return refusal.outcome if refusal else None


@pytest.mark.parametrize(
    ("pressure", "dear"),
    [
        (IDLE, None),
        (Pressure(), None),  # a page that says nothing holds nothing back
        (Pressure(requests_waiting=1), "skipped_pressure"),
        (Pressure(kv_usage_ratio=0.91), "skipped_pressure"),
        (Pressure(kv_usage_ratio=0.9), None),
    ],
)
def test_74_only_dear_kinds_are_left_out_under_pressure(pressure: Pressure, dear: str | None) -> None:
    """Saturation is when users suffer: chat must see it."""
    assert why_not(Gate(), LONG, pressure=pressure) == dear
    assert why_not(Gate(), CHAT, pressure=pressure) is None


def test_74_the_switch_stops_everything() -> None:
    assert [why_not(Gate(), item, enabled=False) for item in (CHAT, MODELS, LONG)] == ["skipped_paused"] * 3


def test_74_a_budget_is_of_the_last_hour_and_of_all_kinds() -> None:
    """26 tokens were spent; chat costs about 8 + 16 more: 50 is enough, 49 is not. Models cost none."""
    gate = Gate()
    gate.take(CHAT, result("ok"), CanaryLimits(), 100.0)
    assert CHAT.cost().tokens == 24
    assert why_not(gate, CHAT, 200.0, tokens_per_hour=50) is None
    assert why_not(gate, CHAT, 200.0, tokens_per_hour=49) == "skipped_budget"
    assert why_not(gate, MODELS, 200.0, tokens_per_hour=0) is None
    assert why_not(gate, CHAT, 100.0 + 3600.0, tokens_per_hour=49) is None
    assert gate.spent_tokens("t", 100.0 + 3600.0) == 0


@pytest.mark.parametrize(
    ("users_tokens", "idle", "outcome"),
    [
        (2_000_000, 0, None),  # 0.5 % are 10,000: 4,098 fit
        (800_000, 0, "skipped_budget"),  # 4,000
        (0, 5_000, None),  # whom would it disturb
        (None, 0, None),  # unknown
    ],
)
def test_74_dear_kinds_take_a_share_of_the_users_traffic(
    users_tokens: float | None, idle: int, outcome: str | None
) -> None:
    pressure = Pressure(tokens_last_hour=users_tokens)
    assert why_not(Gate(), LONG, pressure=pressure, idle_tokens_per_hour=idle) == outcome


def test_what_canaries_took_is_not_the_users_traffic() -> None:
    """1,000,000 on the page are 200,000 of users: 0.5 % of them are 1,000."""
    gate = Gate()
    gate.take(LONG, result("ok", prompt=800_000, output=0), CanaryLimits(), 0.0)
    limits = {"tokens_per_hour": 10_000_000, "idle_tokens_per_hour": 0}
    assert why_not(gate, LONG, pressure=Pressure(tokens_last_hour=1_000_000), **limits) == "skipped_budget"


def test_a_server_that_fails_gets_less_load_and_the_cheapest_goes_on() -> None:
    gate = Gate()
    gate.take(CHAT, result("ok"), CanaryLimits(), 0.0)
    gate.take(CHAT, result("server_error"), CanaryLimits(), 1.0)
    assert why_not(gate, LONG, 2.0) == "skipped_backoff"
    assert why_not(gate, LONG, 2.0, is_cheapest=True) is None
    assert why_not(gate, CHAT, 2.0) is None
    gate.take(CHAT, result("ok"), CanaryLimits(), 3.0)
    assert why_not(gate, LONG, 4.0) is None


def test_a_wrong_answer_is_no_reason_for_less_load() -> None:
    gate = Gate()
    gate.take(CHAT, result("wrong_answer", "correctness"), CanaryLimits(), 0.0)
    assert why_not(gate, LONG, 1.0) is None


def test_09_a_refused_key_is_tried_once_a_minute() -> None:
    gate = Gate()
    gate.take(CHAT, result("auth", prompt=None, output=None), CanaryLimits(), 10.0)
    assert [why_not(gate, CHAT, at) for at in (11.0, 69.9, 70.0)] == ["skipped_backoff", "skipped_backoff", None]
    gate.take(CHAT, result("ok"), CanaryLimits(), 71.0)
    assert why_not(gate, CHAT, 72.0) is None


def test_what_was_never_sent_costs_nothing() -> None:
    gate = Gate()
    unsent = ProbeResult("t", "chat", "connect_refused", 0.0, 0.0)
    gate.take(CHAT, unsent, CanaryLimits(), 0.0)
    assert gate.spent_tokens("t", 1.0) == 0


@pytest.mark.parametrize(
    ("outcome", "at", "has_answered", "told"),
    [
        ("connect_refused", 59.0, False, "loading"),
        ("unavailable", 59.0, False, "loading"),
        ("server_error", 59.0, False, "server_error"),
        ("connect_refused", 61.0, False, "connect_refused"),
        ("connect_refused", 59.0, True, "connect_refused"),
    ],
)
def test_17_a_target_that_never_answered_is_loading_while_it_warms_up(
    outcome: str, at: float, has_answered: bool, told: str  # noqa: FBT001 - a column
) -> None:  # fmt: skip
    gate, limits = Gate(), CanaryLimits(warm_up_seconds=60)
    assert gate.refusal(CHAT, "t", limits, IDLE, 0.0, is_cheapest=False) is None
    if has_answered:
        gate.take(CHAT, result("ok"), limits, 1.0)
    assert gate.take(CHAT, result(outcome), limits, at).outcome == told


async def test_never_two_at_once_on_a_target_across_kinds() -> None:
    """The second waits for its turn; another target is not held up."""
    gate, order = Gate(), []

    async def visit(target: str, name: str) -> None:
        async with gate.turn(target):
            order.append(f"{name} begins")
            await asyncio.sleep(0.02)
            order.append(f"{name} ends")

    await asyncio.gather(visit("t", "chat"), visit("t", "long_prompt"), visit("u", "other"))
    assert order.index("chat ends") < order.index("long_prompt begins")
    assert order.index("other begins") < order.index("chat ends")
