"""Whether advice that is not about a number of replicas was followed, by what engines show."""

from collections.abc import Sequence

from agent.advice.knobs_applied import APPLIED
from agent.advice.scene import LOAD_SECONDS, Scene
from agent.advice.shares import hit_ratio_of, hottest, shares_of
from agent.advice.slow_replica import STEP_RATIO, step_ratio
from agent.model import Recommendation, TargetStatus
from agent.signals.sums import add_up


def was_applied(scene: Scene, entry: Recommendation) -> bool | None:
    """None where nothing tells: pages do not show settings."""
    ask = {
        "rebalance_pools": _is_rebalanced,
        "split_prefill_and_decode": _is_rebalanced,
        "aggregate_again": _is_aggregated,
        "uneven_routing": _is_even,
        "working_set_spread": _are_hits_back,
        "uneven_hits": _are_hits_back,
        "slow_replica": _is_well,
        **APPLIED,
    }.get(entry.reason_code)
    return None if ask is None else ask(scene, entry)


def _is_rebalanced(scene: Scene, entry: Recommendation) -> bool | None:
    """As many engines prefill as was advised, and some decode."""
    return entry.low <= _count(scene, entry, "prefill") <= entry.high and _count(scene, entry, "decode") > 0


def _is_aggregated(scene: Scene, entry: Recommendation) -> bool:
    halves = _count(scene, entry, "prefill") + _count(scene, entry, "decode")
    return not halves and _count(scene, entry, "aggregated") >= entry.proposed


def _is_even(scene: Scene, entry: Recommendation) -> bool | None:
    shares = shares_of(scene, _group(scene, entry))
    return None if shares is None else hottest(shares) is None


def _are_hits_back(scene: Scene, entry: Recommendation) -> bool | None:
    """At least half of what was to be won."""
    ratio = hit_ratio_of(add_up(scene.increments(_group(scene, entry), LOAD_SECONDS)))
    return None if ratio is None else ratio >= (entry.current + entry.proposed) / 2


def _is_well(scene: Scene, entry: Recommendation) -> bool | None:
    """The replica that was slow is gone, or as fast as its fellows."""
    told = [e for e in entry.evidence if e.signal.startswith(STEP_RATIO) and e.value == entry.current]
    name = told[0].signal.removeprefix(STEP_RATIO) if told else ""
    group = _group(scene, entry)
    if not any(status.name == name for status in group):
        return True
    shares = shares_of(scene, group)
    speed = None if shares is None else step_ratio(scene, group, shares, name)
    return None if speed is None else not speed.is_slow


def _group(scene: Scene, entry: Recommendation) -> Sequence[TargetStatus]:
    return scene.groups().get((entry.model, entry.role), ())


def _count(scene: Scene, entry: Recommendation, role: str) -> int:
    return len(scene.groups().get((entry.model, role), ()))
