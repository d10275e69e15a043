"""Verdicts of knobs and repairs: what shows that they were followed, what shows that not, and what shows nothing."""

from dataclasses import replace

import pytest
from law_pages import LawEngine, promise

from agent.advice.applied import was_applied
from agent.advice.bucket_edges import bucket_edges
from agent.advice.gpu_repair import gpu_repair
from agent.advice.scene import Scene
from agent.model import Recommendation
from agent.plan import Plan
from agent.sli.count import TargetFacts
from probes.engine_args import engine_args
from probes.nvml_reading import gpu_reading


def told(code: str, current: float, proposed: float, binding: str = "kv") -> Recommendation:
    low, high = min(proposed, 8 * current), max(proposed, 8 * current)
    if proposed < current:
        low, high = proposed, current - 1
    return Recommendation(
        code, 0.0, "m", "aggregated", "knob", current, proposed, low, high, code, binding, "", 0.5, None, (), (), {},
        (), (), "", 0.0,
    )  # fmt: skip


def running(batch: float, waiting: float = 0.0, *settings: str, drafts: float | None = None) -> Scene:
    engine = LawEngine(settings=settings)
    engine.run(320.0, batch, waiting=waiting, more=None if drafts is None else {"spec_decode_drafts_total": drafts})
    return engine.scene(promise("ttft", 0.2))


@pytest.mark.parametrize(
    ("row", "scene", "entry", "applied"),
    [
        ("more memory", running(4, 0, "gpu_memory_utilization=0.9"), told("gpu_memory_utilization", 0.6, 0.9), True),
        ("as before", running(4, 0, "gpu_memory_utilization=0.6"), told("gpu_memory_utilization", 0.6, 0.9), False),
        ("a page that does not tell", running(4), told("gpu_memory_utilization", 0.6, 0.9), None),
        ("8 bits", running(4, 0, "cache_dtype=fp8_e4m3"), told("kv_cache_dtype", 16, 8), True),
        ("16 bits", running(4, 0, "cache_dtype=auto"), told("kv_cache_dtype", 16, 8), False),
        ("a larger batch was seen", running(20), told("max_num_seqs_low", 16, 32), True),
        ("at the old cap under a queue", running(16, 9), told("max_num_seqs_low", 16, 32), False),
        ("few users", running(3), told("max_num_seqs_low", 16, 32), None),
        ("a larger batch than allowed", running(32), told("max_num_seqs_high", 32, 16), False),
        ("it may have few users", running(3), told("max_num_seqs_high", 32, 16), None),
        ("drafts no more", running(4), told("speculation_poor", 1, 0), True),
        ("drafts on", running(4, drafts=100.0), told("speculation_poor", 1, 0), False),
        ("drafts on trial", running(4, drafts=100.0), told("speculation_trial", 0, 1), True),
        ("no trial", running(4), told("speculation_trial", 0, 1), False),
        ("blocks of 128", running(4, 0, "block_size=128"), told("nixl_post_time", 16, 128), True),
        ("blocks of 16", running(4, 0, "block_size=16"), told("nixl_post_time", 16, 128), False),
        ("a lease is on no page", running(4), told("nixl_kv_expired", 30, 60), None),
    ],
)
def test_what_shows_whether_a_knob_was_turned(row: str, scene: Scene, entry: Recommendation, applied: object) -> None:
    assert was_applied(scene, entry) is applied, row


@pytest.mark.parametrize(("threshold", "applied"), [(0.2, False), (0.25, True)])
def test_an_edge_is_there_or_not(threshold: float, applied: object) -> None:
    """By what the page has now, where the threshold of the promise is today."""
    engine = LawEngine()
    engine.run(320.0, 8, first_tokens=0.15)
    (entry,) = bucket_edges(engine.scene(promise("ttft", 0.2)))
    assert was_applied(engine.scene(promise("ttft", threshold)), entry) is applied


@pytest.mark.parametrize(("evidence", "applied"), [("pod", True), ("", None)])
def test_a_pods_arguments_tell_and_the_config_does_not(evidence: str, applied: object) -> None:
    """A config that nobody changed says the old number, or the new one before anything was restarted."""
    labels = {"engine_args_evidence": evidence} if evidence else {}
    args, _ = engine_args("--max-num-batched-tokens 2048")
    plan = Plan(targets={"vllm-0": TargetFacts("m", "aggregated", None, labels=labels, engine_args=args)})
    scene = replace(running(4), plan=plan)
    assert was_applied(scene, told("token_budget", 8192, 2048)) is applied


def test_a_gpu_without_its_fault_was_repaired() -> None:
    engine = LawEngine()
    engine.run(20.0, 4)
    for at, rows in ((engine.at - 10, 1), (engine.at, 1)):
        engine.windows.take(gpu_reading("gpu-0", at, {"remap_pending": rows}))
    (entry,) = gpu_repair(engine.scene())
    assert was_applied(engine.scene(), entry) is False
    engine.windows.take(gpu_reading("gpu-0", engine.at + 10, {"remap_pending": 0}))
    assert was_applied(engine.scene(), entry) is True
