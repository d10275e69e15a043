"""What is known of how a group's engines were started: from config, their pods' arguments, and their pages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from agent.increment import Increment
from agent.sli.count import TargetFacts
from probes.engine_args import EngineArgs

Source = Literal["config", "pod", "page", "inferred", "assumed"]
T = TypeVar("T")
WHERE: Mapping[Source, str] = {
    "config": "engine_args in the config",
    "pod": "its pod's arguments",
    "page": "vllm:cache_config_info",
}
DRAFTS = "spec_decode_drafts_total"  # on the page only of an engine that speculates
SPECULATION = "speculative decoding: a step gives more than one token, and drafts are steps that are not counted"
HYBRID = {
    "sliding_window": "sliding-window layers read less KV than is resident",
    "mamba_block_size": "state-space layers hold no KV",
}
"""Labels of `vllm:cache_config_info` that say so (vLLM 0.32, config/cache.py): the same as a model's name may tell."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """None, or nothing, is not known. What replicas were started with differently is not known of the group.

    `refusals` are reasons why the step-time model does not hold; `cautions` why not beyond what was seen. `source` is
    where `token_budget` and `max_sequences` come from.
    """

    token_budget: int | None = None
    max_sequences: int | None = None
    memory_ratio: float | None = None
    kv_dtype: str | None = None
    block_tokens: float | None = None
    speculates: bool = False
    source: Source = "config"
    refusals: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()


def engine_facts(targets: Iterable[TargetFacts | None], increments: Sequence[Increment]) -> EngineFacts:
    """The facts of these targets, whose newest increments say what their pages tell."""
    known = [facts for facts in targets if facts is not None]
    args = [facts.engine_args for facts in known]
    is_pods = any(facts.labels.get("engine_args_evidence") == "pod" for facts in known)
    drafts = any((DRAFTS, "") in increment.counters for increment in increments)
    speculates = drafts or any(each.has("speculative-config") for each in args)
    speculation = (SPECULATION,) if speculates else ()
    settings = _settings(increments)
    ratio = _only([each.ratio("gpu-memory-utilization") for each in args])
    told = settings.get("gpu_memory_utilization")
    return EngineFacts(
        token_budget=_only([each.count("max-num-batched-tokens") for each in args]),
        max_sequences=_only([each.count("max-num-seqs") for each in args]),
        memory_ratio=_number(told) if told is not None else ratio,
        kv_dtype=settings.get("cache_dtype") or _only([each.word("kv-cache-dtype") for each in args]),
        block_tokens=_number(settings.get("block_size", "")),
        speculates=speculates,
        source="pod" if is_pods else "config",
        refusals=tuple(dict.fromkeys((*(reason for each in args for reason in _refusals(each)), *speculation))),
        cautions=tuple(why for name, why in HYBRID.items() if name in settings),
    )


def _refusals(args: EngineArgs) -> Iterator[str]:
    pipeline, data = args.count("pipeline-parallel-size") or 1, args.count("data-parallel-size") or 1
    if pipeline > 1:
        yield f"pipeline parallelism (--pipeline-parallel-size {pipeline}): steps of several batches overlap"
    if args.has("enable-expert-parallel"):
        ranks = f" over {data} data-parallel ranks that wait for each other" if data > 1 else ""
        yield f"expert parallelism (--enable-expert-parallel){ranks}: the step's base moves with the experts that wake"
    if args.has("enable-lora"):
        yield "LoRA (--enable-lora): adapters cost more or less by their rank, and which ones run is not counted"
    if args.word("scheduling-policy") == "priority":
        yield "priorities (--scheduling-policy priority): requests overtake each other, and pages do not tell how"


def _settings(increments: Sequence[Increment]) -> dict[str, str]:
    """What the newest pages say; nothing of what they say differently."""
    newest = {increment.key: increment for increment in increments}
    said: dict[str, set[str]] = {}
    for increment in newest.values():
        for signal, label in increment.gauges:
            if signal == "engine_setting":
                name, _, value = label.partition("=")
                said.setdefault(name, set()).add(value)
    return {name: next(iter(values)) for name, values in said.items() if len(values) == 1}


def _only(values: Iterable[T | None]) -> T | None:
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
