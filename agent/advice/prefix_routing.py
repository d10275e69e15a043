"""Rule: a prefix cache that lost its hits when replicas were added, because a router that does not look spreads what
belongs together; or that some replicas have, and others have not.

A conversation's next turn finds its beginning only where the last one was. With k replicas and no look at prefixes that
is one time in k, so the same traffic hits less the more replicas there are. Sent where their beginning is cached,
requests find what they found before: the replicas together hold no less than fewer did.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.advice.capacity import predict
from agent.advice.routing import share_evidence
from agent.advice.scene import LEARN_SECONDS, LOAD_SECONDS, Scene, alternative, objectives_of
from agent.advice.shares import LEAST_MINUTES, MINUTE_SECONDS, Share, hit_ratio_of, shares_of
from agent.model import Evidence, Recommendation, SloStatus, TargetStatus
from agent.signals.sums import add_up

WARM_SECONDS = 600.0  # after a replica came: until then its cache is empty for another reason
BEFORE_SECONDS = 900.0  # of the time before it came
LEAST_BEFORE_MINUTES = 5
LEAST_FALL = 0.1  # of all prompt tokens
LEAST_SPREAD = 0.15  # between replicas, in every minute
SURE, LIKELY = 0.6, 0.4  # what the traffic itself became in that hour is not known
VERIFY_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Fall:
    """Hit ratios before replicas came (all of it, its worst minute) and now (all of it, its best minute)."""

    replicas_before: int
    before: float
    worst_before: float
    now: float
    best_now: float

    @property
    def is_clear(self) -> bool:
        """Beyond noise: no minute of now is as good as any of before, and the difference matters."""
        return self.before - self.now >= LEAST_FALL and self.best_now < self.worst_before


def prefix_routing(scene: Scene) -> Iterator[Recommendation]:
    """At most one per model and role. None of fewer than two replicas, where one is not read, where too few requests
    came, while the newest replica is not warm, of decode pools (their cache is filled from elsewhere), and where hit
    ratios neither fell clearly when replicas came nor differ clearly between them.
    """
    for (model, role), group in scene.groups().items():
        shares = None if role == "decode" else shares_of(scene, group)
        if shares is None:
            continue
        came = {status.name: _came_at(scene, status) for status in group}
        if max(came.values()) > scene.now_seconds - WARM_SECONDS:
            continue
        fall = _fall(scene, group, came)
        if fall is not None and fall.is_clear:
            yield _spread(scene, model, role, group, shares, fall)
        elif (pair := _far_apart(shares)) is not None:
            yield _uneven(scene, model, role, group, shares, *pair)


def _came_at(scene: Scene, status: TargetStatus) -> float:
    """When the first thing was told of it within the hour."""
    return min((i.from_seconds for i in scene.increments([status], LEARN_SECONDS)), default=scene.now_seconds)


def _fall(scene: Scene, group: Sequence[TargetStatus], came: Mapping[str, float]) -> Fall | None:
    """None where no replica came within the hour, or nothing tells of the time before."""
    begin = min(came.values())
    fresh = [at for at in came.values() if at > begin + WARM_SECONDS]
    if not fresh:
        return None
    old = [status for status in group if came[status.name] < min(fresh)]
    before = _minutes(scene, old, max(min(fresh) - BEFORE_SECONDS, begin + WARM_SECONDS), min(fresh))
    now = _minutes(scene, group, scene.now_seconds - LOAD_SECONDS, scene.now_seconds)
    if len(before[1]) < LEAST_BEFORE_MINUTES or len(now[1]) < LEAST_MINUTES or before[0] is None or now[0] is None:
        return None
    return Fall(len(old), before[0], min(before[1]), now[0], max(now[1]))


def _minutes(
    scene: Scene, group: Sequence[TargetStatus], first: float, last: float
) -> tuple[float | None, list[float]]:
    """The hit ratio of all of it, and of its minutes in which something was looked up."""
    increments = [i for i in scene.increments(group, LEARN_SECONDS) if first < i.to_seconds <= last]
    minutes: dict[int, list[object]] = {}
    for increment in increments:
        minutes.setdefault(int((increment.to_seconds - first) / MINUTE_SECONDS), []).append(increment)
    ratios = [hit_ratio_of(add_up(minute)) for minute in minutes.values()]  # type: ignore[arg-type]
    return hit_ratio_of(add_up(increments)), [ratio for ratio in ratios if ratio is not None]


def _far_apart(shares: Sequence[Share]) -> tuple[Share, Share] | None:
    """The replicas that hit most and least, where they do so in nearly every minute."""
    known = [share for share in shares if share.hit_ratio is not None]
    if len(known) < len(shares):
        return None
    best, worst = max(known, key=lambda s: s.hit_ratio or 0.0), min(known, key=lambda s: s.hit_ratio or 0.0)
    pairs = [(a, b) for a, b in zip(best.hit_ratios, worst.hit_ratios, strict=True) if a is not None and b is not None]
    apart = sum(a - b >= LEAST_SPREAD for a, b in pairs)
    return (best, worst) if apart >= LEAST_MINUTES else None


def _spread(
    scene: Scene, model: str, role: str, group: Sequence[TargetStatus], shares: Sequence[Share], fall: Fall
) -> Recommendation:
    promises = scene.promises(group)
    choices = _choices(scene, group, promises, (fall.now, fall.worst_before, fall.before))
    return Recommendation(
        id=f"prefix-routing-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="route",
        current=fall.now,
        proposed=fall.before,
        low=fall.worst_before,
        high=1.0,
        reason_code="working_set_spread",
        binding="prefix_cache",
        summary=(
            f"Send requests of {model} ({role}) to the replica that has their beginning cached: of the prompt tokens "
            f"{100 * fall.before:.0f} % were found in the prefix cache of {fall.replicas_before}, and only "
            f"{100 * fall.now:.0f} % in those of {len(group)}: a router that does not look spreads what belongs "
            f"together. By prefix they find {100 * fall.worst_before:.0f} to {100 * fall.before:.0f} %."
        ),
        confidence=SURE,
        meets_slo=_meets(choices),
        evidence=(
            Evidence("prefix_hit_ratio_before_replicas_came", BEFORE_SECONDS, fall.before),
            Evidence("prefix_hit_ratio", LOAD_SECONDS, fall.now),
            Evidence("replicas_before", 0.0, float(fall.replicas_before)),
            *share_evidence(shares, promises),
        ),
        alternatives=choices,
        do_nothing={
            "summary": f"{100 * (fall.before - fall.now):.0f} % of all prompt tokens go on being computed again",
            "meets_slo": choices[0]["meets_slo"] if choices else None,
        },
        side_effects=_BESIDE,
        steps=_STEPS,
        rollback="give the router the policy of before; caches fill again by themselves",
        verify_at_seconds=scene.now_seconds + VERIFY_SECONDS,
    )


def _uneven(
    scene: Scene,
    model: str,
    role: str,
    group: Sequence[TargetStatus],
    shares: Sequence[Share],
    best: Share,
    worst: Share,
) -> Recommendation:
    promises, now = scene.promises(group), hit_ratio_of(add_up(scene.increments(group, LOAD_SECONDS))) or 0.0
    most, least = best.hit_ratio or 0.0, worst.hit_ratio or 0.0
    choices = _choices(scene, group, promises, (now, now, most))
    return Recommendation(
        id=f"prefix-routing-{model}-{role}-{scene.now_seconds:.0f}",
        at_seconds=scene.now_seconds,
        model=model,
        role=role,
        action="route",
        current=now,
        proposed=most,
        low=now,
        high=1.0,
        reason_code="uneven_hits",
        binding="prefix_cache",
        summary=(
            f"Send requests of {model} ({role}) to the replica that has their beginning cached: {best.name} finds "
            f"{100 * most:.0f} % of its prompt tokens in its prefix cache, {worst.name} {100 * least:.0f} %, and all "
            f"together {100 * now:.0f} %. At best all find what {best.name} does; that is not promised."
        ),
        confidence=LIKELY,
        meets_slo=_meets(choices),
        evidence=(Evidence("prefix_hit_ratio", LOAD_SECONDS, now), *share_evidence(shares, promises)),
        alternatives=choices,
        do_nothing={
            "summary": f"{worst.name} goes on computing what {best.name} finds",
            "meets_slo": choices[0]["meets_slo"] if choices else None,
        },
        side_effects=_BESIDE,
        steps=(f"first compare the cache sizes (vllm:cache_config_info) of {best.name} and {worst.name}", *_STEPS),
        rollback="give the router the policy of before; caches fill again by themselves",
        verify_at_seconds=scene.now_seconds + VERIFY_SECONDS,
    )


_BESIDE = (
    "popular beginnings gather load: give the router a limit on load, beyond which it takes the least loaded",
    "caches are laid anew: for some minutes fewer hits, not more",
)
_STEPS = (
    "turn prefix-aware routing on (llm-d's endpoint picker has it); without such a router, bind a session to a replica",
    "watch the hit ratio and the load of each replica for a quarter of an hour",
)


def _choices(
    scene: Scene, group: Sequence[TargetStatus], promises: Sequence[SloStatus], ratios: tuple[float, float, float]
) -> tuple[dict[str, object], ...]:
    """As it is, by prefix at the pessimistic end, and by prefix as predicted; none where no model is known."""
    view, price = scene.view(group), scene.dollars_per_hour(group)
    if view is None:
        return ()
    objectives = objectives_of(promises)
    names = ("as it is", "by prefix, at the pessimistic end", "by prefix, as predicted")
    return tuple(
        alternative(
            f"{name}: {100 * ratio:.0f} % hits",
            predict(view.engine, replace(view.load, hit_ratio=ratio), objectives),
            price,
        )
        for name, ratio in zip(names, ratios, strict=True)
    )


def _meets(choices: Sequence[Mapping[str, object]]) -> bool | None:
    """Whether the pessimistic end keeps every promise."""
    meets = choices[1]["meets_slo"] if choices else None
    return meets if isinstance(meets, bool) else None
