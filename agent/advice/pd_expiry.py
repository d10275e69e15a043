"""Rule: KV that prefill engines hold for decode engines, and that expires before anybody reads it.

The request is then computed again, or fails. The lease is short only where decode engines are not: where they are full,
a longer lease holds the prefill side's memory longer and cures nothing.
"""

from collections.abc import Iterator, Sequence

from agent.advice.pressure import Pressure, pressure
from agent.advice.scene import LOAD_SECONDS, Scene, untold
from agent.model import Evidence, Recommendation, TargetStatus
from agent.signals.sums import Sums, add_up

LEAST_EXPIRED = 3.0
LEAST_RATIO = 0.002  # of the requests: a client that hung up leaves KV to expire, too
FULL_RATIO = 0.5  # of the readings with a queue for room, or a full cache, on the decode side
LEASE_SECONDS = 30.0  # vLLM 0.32's default of kv_lease_duration (kv_connector/v1/nixl/base_scheduler.py)
TIMES = 2.0
VERIFY_SECONDS = 1_800.0
FULL_CONFIDENCE, LEASE_CONFIDENCE = 0.7, 0.5


def pd_expiry(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model and role. None where nobody tells, nothing expires, or hardly more than clients hang up."""
    for (model, role), group in scene.groups().items():
        sums = add_up(scene.increments(group, LOAD_SECONDS))
        expired = sums.counter("nixl_kv_expired_requests_total")
        late = sums.counter("nixl_late_notifications_total")
        prompts = sums.histogram("ttft_seconds")
        ratio = expired / prompts.count if expired is not None and prompts is not None and prompts.count else None
        if expired is None:
            continue
        if not late and (expired < LEAST_EXPIRED or (ratio is not None and ratio < LEAST_RATIO)):
            continue
        yield _recommend(scene, model, role, group, sums, expired, late, ratio)


def _is_full(decode: Pressure | None) -> bool:
    return decode is not None and max(decode.queued_ratio, decode.full_ratio) >= FULL_RATIO


def _recommend(
    scene: Scene,
    model: str,
    role: str,
    group: Sequence[TargetStatus],
    sums: Sums,
    expired: float,
    late: float | None,
    ratio: float | None,
) -> Recommendation:
    readers = scene.groups().get((model, "decode"), [])
    decode = pressure(scene.increments(readers, LOAD_SECONDS)) if readers else None
    is_full, price = _is_full(decode), scene.dollars_per_hour([*group, *readers])
    longer = f"kv_lease_duration {TIMES * LEASE_SECONDS:.0f} in kv_connector_extra_config, on both sides"
    share = "" if ratio is None else f" ({100 * ratio:.1f} % of its requests)"
    doubt = f", and {late:.0f} reads ended after it: those answers may be wrong" if late else ""
    cause = (
        "the decode side has no room: give it more replicas or KV first"
        if is_full
        else "the decode side has room, so the lease is what is short"
        if decode is not None
        else "nothing is known of the decode side: look whether it has room"
    )
    return Recommendation(
        id=f"pd-expiry-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="knob",
        current=LEASE_SECONDS,
        proposed=LEASE_SECONDS if is_full else TIMES * LEASE_SECONDS,
        low=LEASE_SECONDS,
        high=TIMES * LEASE_SECONDS,
        reason_code="nixl_kv_expired",
        binding="kv",
        summary=(
            f"KV of {expired:.0f} requests that {model} ({role}) had prefilled expired before a decode engine read "
            f"it{share}{doubt}: {cause}."
        ),
        confidence=FULL_CONFIDENCE if is_full else LEASE_CONFIDENCE,
        meets_slo=None,
        evidence=(
            Evidence("nixl_kv_expired_requests", LOAD_SECONDS, expired),
            Evidence("nixl_kv_expired_ratio", LOAD_SECONDS, ratio),
            Evidence("nixl_late_notifications", LOAD_SECONDS, late),
            Evidence("nixl_failed_transfers", LOAD_SECONDS, sums.counter("nixl_failed_transfers_total")),
            Evidence("decode_queued_for_room_ratio", LOAD_SECONDS, None if decode is None else decode.queued_ratio),
            Evidence("decode_kv_usage_ratio_max", LOAD_SECONDS, None if decode is None else decode.most_kv_ratio),
        ),
        alternatives=(
            untold("as it is", price),
            untold("more decode replicas, or more KV room on them", None),
            untold(longer, price),
        ),
        do_nothing={
            "summary": "those requests are prefilled again or fail, and their users wait twice",
            "meets_slo": None,
        },
        side_effects=(
            "a longer lease holds the prefill side's KV longer: watch its kv_usage_ratio",
            "the lease of now is not on any page: 30 s is vLLM 0.32's default",
        ),
        steps=(
            *(("add a decode replica, or move one over from prefill; see the advice on replicas",) if is_full else ()),
            "look for clients and routers that give up between the two halves: their KV expires, too",
            *(() if is_full else (f"restart one prefill engine with {longer}, then the decode side",)),
            "watch nixl_kv_expired_requests_total stand still",
        ),
        rollback="start with the kv_lease_duration of before",
        verify_at_seconds=scene.now_seconds + scene.plan.advice.cold_start_seconds + VERIFY_SECONDS,
    )
