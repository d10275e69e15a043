"""Which system wrote a metrics page, from the names on it."""

from typing import Final

from probes.books import System

# The first row with a name on the page decides. A Dynamo worker passes vLLM's series through, so it comes before vLLM;
# vllm_router's names begin like vLLM's under the prefix `vllm_`, so it does too, and production-stack's router writes
# names of vLLM's beside its own. vLLM can carry LMCache's.
ENGINES: Final = ("vllm", "dynamo_worker")  # whose pages hold an engine's own series
ROUTERS: Final = ("dynamo_frontend", "llm_d_epp", "vllm_router", "production_stack_router")  # what clients ask
GPUS: Final = ("nvml", "dcgm")  # sources of GPU figures
ASKABLE: Final = ("vllm", "dynamo_frontend", "vllm_router", "production_stack_router")  # OpenAI requests go there
TELLING: Final[tuple[tuple[System, tuple[str, ...]], ...]] = (
    ("vllm_router", ("vllm_router_",)),
    ("dynamo_frontend", ("dynamo_frontend_",)),
    ("dynamo_worker", ("dynamo_component_", "dynamo_work_handler_")),
    ("production_stack_router", ("vllm:num_incoming_requests_total", "vllm:healthy_pods_total")),
    ("vllm", ("vllm:", "ray_vllm:", "ray_vllm_", "kserve_vllm:", "vllm_")),
    ("lmcache", ("lmcache_mp_", "lmcache:")),
    ("mooncake", ("master_", "mooncake_")),
    ("llm_d_epp", ("llm_d_", "inference_objective_", "inference_extension_", "inference_model_")),
    ("dcgm", ("DCGM_",)),
)


TOLD_CHARACTERS: Final = 2_000_000  # a page that has not told until then will not


def detect_system(text: str) -> System | None:
    """The system, or None when no name on the page tells it."""
    text = text[:TOLD_CHARACTERS]
    firsts = {line.lstrip()[:40] for line in text.split("\n") if line and line.lstrip()[:1] != "#"}
    return next((system for system, names in TELLING if any(first.startswith(names) for first in firsts)), None)
