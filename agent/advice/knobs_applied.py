"""Whether a knob was turned, or a GPU repaired, by what pages, pods and GPUs show of it afterwards."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from agent.advice.bucket_edges import edges_of
from agent.advice.engine_facts import DRAFTS, EngineFacts, engine_facts
from agent.advice.gpu_faults import REPAIRS
from agent.advice.gpu_repair import faults_by_need
from agent.advice.pressure import pressure
from agent.advice.scene import LOAD_SECONDS, Scene
from agent.model import Recommendation, TargetStatus

Told = Callable[[Scene, Recommendation], bool | None]


def _has_more_memory(scene: Scene, entry: Recommendation) -> bool | None:
    ratio = _facts(scene, entry).memory_ratio
    return None if ratio is None else ratio >= entry.low


def _has_small_cache(scene: Scene, entry: Recommendation) -> bool | None:
    dtype = _facts(scene, entry).kv_dtype
    return None if dtype is None else dtype.startswith("fp8")


def _has_larger_batch(scene: Scene, entry: Recommendation) -> bool | None:
    """The pod says so, or a larger batch was seen; not applied, where it stands at the old one under a queue."""
    said = _said_by_pod(scene, entry).max_sequences
    felt = pressure(scene.increments(_group(scene, entry), LOAD_SECONDS))
    if said is not None:
        return said >= entry.low
    if felt is None:
        return None
    return True if felt.most_running > entry.current else False if felt.queued_ratio else None


def _has_smaller_batch(scene: Scene, entry: Recommendation) -> bool | None:
    """A batch that stays below may just have few users."""
    said = _said_by_pod(scene, entry).max_sequences
    felt = pressure(scene.increments(_group(scene, entry), LOAD_SECONDS))
    if said is not None:
        return said <= entry.high
    return False if felt is not None and felt.most_running > entry.high else None


def _has_smaller_budget(scene: Scene, entry: Recommendation) -> bool | None:
    said = _said_by_pod(scene, entry).token_budget
    return None if said is None else said <= entry.high


def _drafts(scene: Scene, entry: Recommendation) -> bool | None:
    """Whether as many replicas draft as was advised: none, or one at least."""
    newest = [i for status in _group(scene, entry) for i in scene.windows.on_page(status.name)]
    drafting = [(DRAFTS, "") in i.counters for i in newest]
    if not drafting:
        return None
    return any(drafting) if entry.proposed else not any(drafting)


def _has_edges(scene: Scene, entry: Recommendation) -> bool | None:
    """Of every promise that was unclear, by its name in the evidence."""
    newest = [i for status in _group(scene, entry) for i in scene.windows.on_page(status.name)]
    names = {figure.signal.removeprefix("undecided_ratio:") for figure in entry.evidence}
    found = [(edges_of(newest, s.slo.sli), s.slo.threshold_seconds) for s in scene.slos if s.slo.name in names]
    if not found or any(edges is None for edges, _ in found):
        return None
    return all(threshold in (edges or ()) for edges, threshold in found)


def _has_larger_blocks(scene: Scene, entry: Recommendation) -> bool | None:
    size = _facts(scene, entry).block_tokens
    return None if size is None else size >= entry.proposed


def _is_repaired(scene: Scene, entry: Recommendation) -> bool:
    needs = {(f"gpu_{repair}", model, role) for repair, model, role in faults_by_need(scene)}
    return (entry.reason_code, entry.model, entry.role) not in needs


APPLIED: Final[Mapping[str, Told]] = {
    "gpu_memory_utilization": _has_more_memory,
    "kv_cache_dtype": _has_small_cache,
    "max_num_seqs_low": _has_larger_batch,
    "max_num_seqs_high": _has_smaller_batch,
    "token_budget": _has_smaller_budget,
    "speculation_poor": _drafts,
    "speculation_trial": _drafts,
    "bucket_edges": _has_edges,
    "nixl_post_time": _has_larger_blocks,
    **{f"gpu_{repair}": _is_repaired for repair in REPAIRS},
}
"""By reason; what is not here shows on no page (a longer KV lease)."""


def _group(scene: Scene, entry: Recommendation) -> Sequence[TargetStatus]:
    return scene.groups().get((entry.model, entry.role), ())


def _facts(scene: Scene, entry: Recommendation) -> EngineFacts:
    group = _group(scene, entry)
    newest = [i for status in group for i in scene.windows.on_page(status.name)]
    return engine_facts([scene.plan.targets.get(status.name) for status in group], newest)


def _said_by_pod(scene: Scene, entry: Recommendation) -> EngineFacts:
    """What the config says stays as it is when an engine is restarted; a pod's arguments do not."""
    facts = _facts(scene, entry)
    return facts if facts.source == "pod" else EngineFacts()
