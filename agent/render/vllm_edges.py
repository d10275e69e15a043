"""The bucket edges of vLLM's latency histograms by family: the thresholds that Prometheus can tell apart.

A server started with --custom-histogram-buckets has others: pass them to `render_rules`.
"""

from collections.abc import Mapping

from probes.names import vllm

Edges = Mapping[str, tuple[float, ...]]

FAMILY_OF = {
    "vllm:time_to_first_token_seconds": "time_to_first_token",
    "vllm:inter_token_latency_seconds": "inter_token_latency",
    "vllm:request_time_per_output_token_seconds": "inter_token_latency",
    "vllm:e2e_request_latency_seconds": "request_latency",
    "vllm:request_queue_time_seconds": "request_latency",
}
DEFAULT_EDGES: Edges = {
    "time_to_first_token": vllm.DEFAULT_EDGES["ttft_seconds"],
    "inter_token_latency": vllm.DEFAULT_EDGES["itl_seconds"],
    "request_latency": vllm.DEFAULT_EDGES["e2e_seconds"],
}


def neighbours(edges: tuple[float, ...], threshold_seconds: float) -> tuple[float | None, float | None]:
    """The nearest edges at or below and at or above the threshold; None where there is none."""
    below = [edge for edge in edges if edge <= threshold_seconds]
    above = [edge for edge in edges if edge >= threshold_seconds]
    return (max(below) if below else None, min(above) if above else None)
