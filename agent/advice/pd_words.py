"""What advice about prefill and decode pools tells in common: its evidence, its choices, their price."""

from collections.abc import Sequence
from math import inf

from agent.advice.pd_pools import Pools
from agent.advice.scene import LEARN_SECONDS, LOAD_SECONDS, Scene, burns_of
from agent.advice.topologies import Outlook
from agent.model import Evidence, SloStatus, TargetStatus
from agent.signals.sums import add_up

Choice = dict[str, object]


def pool_evidence(scene: Scene, pools: Pools, *burning: SloStatus) -> tuple[Evidence, ...]:
    """The load, what the pools have to do for it, and the promises that it is about."""
    load, engine = pools.load, pools.engine
    fresh = load.input_tokens * (1 - load.hit_ratio) * engine.steps.prefill_seconds_per_token
    busy = (load.rate or 0.0) * (fresh + engine.steps.overhead_seconds) / len(pools.prefill)
    return (
        Evidence("requests_per_second", LOAD_SECONDS, load.rate),
        Evidence("input_tokens_mean", LOAD_SECONDS, load.input_tokens),
        Evidence("output_tokens_mean", LOAD_SECONDS, load.output_tokens),
        Evidence("prefill_engines", 0.0, float(len(pools.prefill))),
        Evidence("decode_engines", 0.0, float(len(pools.decode))),
        Evidence("prefill_busy_ratio", LOAD_SECONDS, busy),
        Evidence("requests_waiting:prefill", LOAD_SECONDS, _mean(scene, pools.prefill, "requests_waiting")),
        Evidence("requests_waiting:decode", LOAD_SECONDS, _mean(scene, pools.decode, "requests_waiting")),
        Evidence("requests_running:decode", LOAD_SECONDS, _mean(scene, pools.decode, "requests_running")),
        Evidence("prefill_seconds_per_token", LEARN_SECONDS, engine.steps.prefill_seconds_per_token),
        Evidence("nixl_post_seconds_mean", LOAD_SECONDS, pools.transfer.post_seconds),
        Evidence("nixl_transfer_seconds_mean", LOAD_SECONDS, pools.transfer.post_seconds + pools.transfer.wire_seconds),
        *burns_of(burning),
    )


def by_name(found: Sequence[Outlook], dollars_per_hour: float | None) -> tuple[Choice, ...]:
    """Every topology with what it is predicted to do; `dollars_per_hour` is the price of one engine."""
    return tuple(
        {
            "setting": one.name,
            "ttft_p95_seconds": one.ttft_p95_seconds,
            "itl_p99_seconds": one.itl_p99_seconds,
            "goodput_ratio": None,
            "dollars_per_hour": None if dollars_per_hour is None else dollars_per_hour * (one.prefill + one.decode),
            "meets_slo": one.meets_slo,
        }
        for one in found
    )


def engine_dollars(scene: Scene, pools: Pools) -> float | None:
    """What one engine costs an hour; None unless each has a price."""
    price = scene.dollars_per_hour(pools.members)
    return None if price is None else price / pools.engines


def stays_missed(status: SloStatus, now: Outlook) -> str:
    """What happens if nobody acts."""
    if now.strain == inf:
        return f"{status.slo.name} stays missed: more comes than these engines can ever serve"
    return f"{status.slo.name} stays missed: {now.strain:.1f} times as many misses as it allows"


def ms(seconds: float | None) -> str:
    """Milliseconds for people."""
    return "unknown" if seconds is None else f"{seconds * 1e3:,.0f} ms"


def _mean(scene: Scene, group: Sequence[TargetStatus], gauge: str) -> float | None:
    level = add_up(scene.increments(group, LOAD_SECONDS)).level(gauge)
    return None if level is None else level.mean
