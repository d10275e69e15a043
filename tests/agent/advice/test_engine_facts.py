"""How engines were started: from config, pods and pages; what makes the step-time model wrong is refused by name."""

import pytest

from agent.advice.engine_facts import EngineFacts, engine_facts
from agent.sli.count import TargetFacts
from agent.windows import EngineKey, Increment
from probes.engine_args import engine_args


def target(args: str, evidence: str = "") -> TargetFacts:
    labels = {"engine_args_evidence": evidence} if evidence else {}
    return TargetFacts("m", "aggregated", None, labels=labels, engine_args=engine_args(args)[0])


def page(*settings: str, name: str = "v0", drafts: float | None = None) -> Increment:
    counters = {} if drafts is None else {("spec_decode_drafts_total", ""): drafts}
    gauges = {("engine_setting", setting): 1.0 for setting in settings}
    return Increment(EngineKey(name, "vllm", "0", "m"), 0.0, 10.0, counters, {}, gauges, restarted=False)


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ("-pp 2", "pipeline parallelism"),
        ("--enable-expert-parallel", "expert parallelism"),
        ("--enable-expert-parallel -dp 8", "8 data-parallel ranks"),
        ("--enable-lora", "LoRA"),
        ("--scheduling-policy priority", "priorities"),
        ('--speculative-config \'{"method": "ngram"}\'', "speculative decoding"),
    ],
)
def test_what_makes_the_law_another_is_refused_with_its_flag(args: str, reason: str) -> None:
    refusals = engine_facts([target(args), target(args)], []).refusals
    assert len(refusals) == 1
    assert reason in refusals[0]


@pytest.mark.parametrize("args", ["", "-pp 1 --scheduling-policy fcfs --data-parallel-size 2", "--no-enable-lora"])
def test_what_changes_nothing_is_not_refused(args: str) -> None:
    assert engine_facts([target(args)], [page("cache_dtype=auto")]) == EngineFacts(kv_dtype="auto")


def test_drafts_on_the_page_are_refused_also_where_nobody_says_so() -> None:
    """vLLM has the counter only where it speculates; that it stands still for a moment changes nothing."""
    facts = engine_facts([None], [page(drafts=0.0)])
    assert facts.speculates
    assert "speculative decoding" in facts.refusals[0]


def test_hybrid_caches_on_the_page_are_cautions() -> None:
    """As with models whose name tells: no larger batch than was seen is predicted."""
    facts = engine_facts([target("")], [page("sliding_window=4096", "mamba_block_size=256")])
    assert len(facts.cautions) == 2
    assert facts.refusals == ()


def test_numbers_and_where_they_come_from() -> None:
    args = "--max-num-batched-tokens 2048 --max-num-seqs 64 --gpu-memory-utilization 0.8"
    facts = engine_facts([target(args, "pod")], [page("gpu_memory_utilization=0.85", "cache_dtype=fp8")])
    assert (facts.token_budget, facts.max_sequences, facts.source) == (2048, 64, "pod")
    assert facts.memory_ratio == 0.85, "the page is the engine's own word"
    assert facts.kv_dtype == "fp8"
    assert engine_facts([target(args)], []).memory_ratio == 0.8
    assert engine_facts([target(args)], []).source == "config"


def test_replicas_that_differ_have_no_common_number() -> None:
    """Nor has a group of which one does not say."""
    facts = engine_facts([target("--max-num-seqs 64"), target("--max-num-seqs 128")], [page("cache_dtype=auto")])
    assert facts.max_sequences is None
    assert engine_facts([target("--max-num-seqs 64"), target("")], []).max_sequences is None
    two = [page("cache_dtype=auto"), page("cache_dtype=fp8", name="v1")]
    assert engine_facts([], two).kv_dtype is None
