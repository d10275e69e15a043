"""Whether all that a rule compares was read: who is missing may be the one that it is about."""

from collections.abc import Collection, Sequence

from agent.advice.scene import LOAD_SECONDS, Scene
from agent.advice.step_samples import LONGEST_SECONDS
from agent.model import TargetStatus

LEAST_COVERED_RATIO = 0.9  # of the last minutes, by every engine


def are_all_read(scene: Scene, members: Sequence[TargetStatus], roles: Collection[str]) -> bool:
    """Whether every target of this model with one of these roles answers, and was read all through the last minutes.

    A target that never told its model counts as one of it. A stretch without pages is not covered by the one after it:
    counters tell what happened in all, gauges do not.
    """
    ours = {status.name for status in members}
    model = members[0].model
    if any(s.role in roles and s.source in ("vllm", "") and s.model in (model, "") for s in _others(scene, ours)):
        return False
    return all(_covered(scene, status) >= LEAST_COVERED_RATIO * LOAD_SECONDS for status in members)


def _others(scene: Scene, ours: Collection[str]) -> list[TargetStatus]:
    return [status for status in scene.statuses if status.name not in ours]


def _covered(scene: Scene, status: TargetStatus) -> float:
    """Seconds of the last minutes; of several engines behind one target, those of the one that told least."""
    told: dict[str, float] = {}
    for increment in scene.increments([status], LOAD_SECONDS):
        seconds = increment.to_seconds - increment.from_seconds
        engine = increment.key.engine
        told[engine] = told.get(engine, 0.0) + (seconds if seconds <= LONGEST_SECONDS else 0.0)
    return min(told.values(), default=0.0)
