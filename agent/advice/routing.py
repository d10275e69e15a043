"""Rule: a balance that is broken: one replica gets much more than the others. GPUs do not help, a router does."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from agent.advice.capacity import predict
from agent.advice.domain import MUCH_REUSE
from agent.advice.scene import LOAD_SECONDS, Scene, alternative, burns_of, objectives_of
from agent.advice.shares import LEAST_RATIO, Share, gets_more, hottest, shares_of
from agent.advice.slow_replica import step_ratio
from agent.model import Evidence, Recommendation, SloStatus, TargetStatus
from agent.signals.sums import add_up

CONFIDENCE = 0.8
VERIFY_SECONDS = 900.0
LEAST_WAITING = 1.0  # requests in its queue, on average
LEAST_ITL_RATIO = 1.25  # of the others' mean gap
LEAST_AFFINITY = 0.1  # more of its prompts' tokens are cached than of the others': it is sent what it knows


def routing(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model and role. None of fewer than two replicas, where one is not read or too few requests came,
    where load is even or uneven only by chance, where the replica with the most does not suffer from it (a router that
    keeps together what belongs together does that), and where that one is slow: that is a repair.
    """
    for (model, role), group in scene.groups().items():
        shares = shares_of(scene, group)
        top = None if shares is None else hottest(shares)
        if shares is None or top is None or not gets_more(top[0], shares) or not _suffers(scene, group, shares, top[0]):
            continue
        speed = step_ratio(scene, group, shares, top[0].name)
        if speed is None or not speed.is_slow:
            yield _recommend(scene, model, role, group, shares, *top)


def _suffers(scene: Scene, group: Sequence[TargetStatus], shares: Sequence[Share], top: Share) -> bool:
    """Whether it alone breaks a promise, has a queue, or makes its users wait longer for tokens than others do."""
    its = [status for status in group if status.name == top.name]
    waiting = add_up(scene.increments(its, LOAD_SECONDS)).level("requests_waiting")
    if waiting is not None and waiting.mean >= LEAST_WAITING:
        return True
    gaps = [share.itl_mean_seconds for share in shares if share is not top and share.itl_mean_seconds is not None]
    if gaps and top.itl_mean_seconds is not None and top.itl_mean_seconds >= LEAST_ITL_RATIO * median(gaps):
        return True
    others = [status for status in group if status.name != top.name]
    return any(scene.misses(its, slo) and not scene.misses(others, slo) for slo in scene.promises(its))


def share_evidence(shares: Sequence[Share], promises: Sequence[SloStatus]) -> tuple[Evidence, ...]:
    """What each replica does of the whole, and how the promises fare."""
    return (
        Evidence("requests_per_second", LOAD_SECONDS, sum(share.requests for share in shares) / LOAD_SECONDS),
        *(Evidence(f"requests:{share.name}", LOAD_SECONDS, share.requests) for share in shares),
        *(Evidence(f"requests_in_engine:{share.name}", LOAD_SECONDS, share.load) for share in shares),
        *(Evidence(f"prefix_hit_ratio:{share.name}", LOAD_SECONDS, share.hit_ratio) for share in shares),
        *(Evidence(f"itl_seconds_mean:{share.name}", LOAD_SECONDS, share.itl_mean_seconds) for share in shares),
        *burns_of(promises),
    )


def _recommend(
    scene: Scene,
    model: str,
    role: str,
    group: Sequence[TargetStatus],
    shares: Sequence[Share],
    top: Share,
    ratio: float,
) -> Recommendation:
    promises = scene.promises(group)
    choices = _choices(scene, group, shares, top, promises)
    part, fair = top.requests / sum(share.requests for share in shares), 1 / len(shares)
    others = [share.hit_ratio for share in shares if share is not top and share.hit_ratio is not None]
    is_affine = top.hit_ratio is not None and bool(others) and top.hit_ratio - max(others) > LEAST_AFFINITY
    reuses = any((share.hit_ratio or 0.0) >= MUCH_REUSE for share in shares)
    way = (
        "route by prefix, but to the least loaded once a replica has clearly more than the others"
        if is_affine or reuses
        else "route to the replica with the fewest requests"
    )
    why = " It is sent what its cache knows." if is_affine else ""
    return Recommendation(
        id=f"routing-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="route",
        current=ratio,
        proposed=1.0,
        low=1.0,
        high=LEAST_RATIO,
        reason_code="uneven_routing",
        binding="balance",
        summary=(
            f"Repair the balance of {model} ({role}): {top.name} gets {100 * part:.0f} % of the requests, where an "
            f"even share is {100 * fair:.0f} %, and has {ratio:.1f} times the load of the others.{why} More replicas "
            f"would not help it: {way}."
        ),
        confidence=CONFIDENCE,
        meets_slo=None if not choices else bool(choices[-1]["meets_slo"]),
        evidence=share_evidence(shares, promises),
        alternatives=tuple(choices),
        do_nothing={
            "summary": f"{top.name} stays {ratio:.1f} times as loaded as the others, which idle meanwhile",
            "meets_slo": choices[0]["meets_slo"] if choices else None,
        },
        side_effects=(
            "users that were bound to a replica lose what its cache held of them",
            *(
                ("without a limit on load, prefix-aware routing makes such a hot spot itself",)
                if is_affine or reuses
                else ()
            ),
        ),
        steps=(
            "look whether the router sees all replicas, and whether it binds clients to them (cookies, connections)",
            way,
            "compare the replicas' requests and load for a quarter of an hour",
        ),
        rollback="give the router the policy of before",
        verify_at_seconds=scene.now_seconds + VERIFY_SECONDS,
    )


def _choices(
    scene: Scene, group: Sequence[TargetStatus], shares: Sequence[Share], top: Share, promises: Sequence[SloStatus]
) -> list[dict[str, object]]:
    """The hottest replica as it is, and each with an even share; none where no model is known."""
    view, price = scene.view(group), scene.dollars_per_hour(group)
    if view is None:
        return []
    even = sum(share.requests for share in shares) / len(shares)
    objectives = objectives_of(promises)
    found = []
    for setting, requests in ((f"{top.name} as it is", top.requests), ("an even share for each", even)):
        load = replace(view.load, concurrency=None, rate=requests / LOAD_SECONDS, routed_over=len(shares))
        found.append(alternative(setting, predict(view.engine, load, objectives), price))
    return found
