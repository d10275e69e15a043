"""A small recording of our own: an engine whose counters rise as a test says."""

from pathlib import Path

from probes.recording import Entry, RecordingWriter

START = 1_700_000_000.0


def page(requests: int) -> str:
    """After so many requests of 10 tokens each: TTFT 0.08 s and E2E 0.4 s, every one."""
    labels = 'engine="0",model_name="m"'
    lines = [
        f"vllm:generation_tokens_total{{{labels}}} {10 * requests}",
        f"vllm:prompt_tokens_total{{{labels}}} {100 * requests}",
        f'vllm:request_success_total{{{labels},finished_reason="stop"}} {requests}',
        f"vllm:num_requests_running{{{labels}}} 0",
        f"vllm:num_requests_waiting{{{labels}}} 0",
    ]
    for name, edges, value in (
        ("time_to_first_token_seconds", ("0.06", "0.1", "+Inf"), 0.08),
        ("e2e_request_latency_seconds", ("0.3", "0.5", "+Inf"), 0.4),
    ):
        lines += [
            f'vllm:{name}_bucket{{{labels},le="{edge}"}} {requests if float(edge) > value else 0}' for edge in edges
        ]
        lines.append(f"vllm:{name}_sum{{{labels}}} {requests * value}")
    return "\n".join(lines) + "\n"


def recording(path: Path, seconds: int = 60, requests_per_second: int = 2) -> Path:
    """One page a second from START on."""
    writer = RecordingWriter(path)
    for second in range(seconds + 1):
        writer.write(Entry(START + second, "a", "vllm", page(second * requests_per_second)))
    writer.close()
    return path
