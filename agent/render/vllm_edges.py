"""The bucket edges of vLLM's latency histograms, as it comes: the thresholds that Prometheus can tell apart.

Source: vLLM 0.32, v1/metrics (families time_to_first_token, inter_token_latency, request_latency); the same edges stand
on pages of 0.24. A server started with --custom-histogram-buckets has others: pass them to `render_rules`.
"""

from collections.abc import Mapping

Edges = Mapping[str, tuple[float, ...]]

TTFT = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
)  # fmt: skip
TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
REQUEST = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)

FAMILY_OF = {
    "vllm:time_to_first_token_seconds": "time_to_first_token",
    "vllm:inter_token_latency_seconds": "inter_token_latency",
    "vllm:request_time_per_output_token_seconds": "inter_token_latency",
    "vllm:e2e_request_latency_seconds": "request_latency",
    "vllm:request_queue_time_seconds": "request_latency",
}
DEFAULT_EDGES: Edges = {"time_to_first_token": TTFT, "inter_token_latency": TOKEN, "request_latency": REQUEST}


def neighbours(edges: tuple[float, ...], threshold_seconds: float) -> tuple[float | None, float | None]:
    """The nearest edges at or below and at or above the threshold; None where there is none."""
    below = [edge for edge in edges if edge <= threshold_seconds]
    above = [edge for edge in edges if edge >= threshold_seconds]
    return (max(below) if below else None, min(above) if above else None)
