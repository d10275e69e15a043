"""One probe's result as JSON: what `slo-agent probe --json` prints and /api/v1/probes lists."""

from collections.abc import Sequence
from typing import Any

from probes.sample import ProbeResult


def probe_json(result: ProbeResult) -> dict[str, Any]:
    """The `probe` shape of the stable interfaces, and who, what and when; unknown is null, times are seconds."""
    gaps = sorted(result.itl_gaps_seconds)
    return {
        "target": result.target,
        "kind": result.kind,
        "model": result.model,
        "rank": result.rank,
        "at": result.at_seconds,
        "planned_at": result.planned_at_seconds,
        "outcome": result.outcome,
        "first_event_seconds": result.first_event_seconds,
        "ttft_seconds": result.ttft_seconds,
        "first_text_seconds": result.first_text_seconds,
        "tpot_seconds": result.tpot_seconds,
        "itl_seconds": {
            "p50": percentile(gaps, 0.5),
            "p99": percentile(gaps, 0.99),
            "max": gaps[-1] if gaps else None,
        },
        "e2e_seconds": result.e2e_seconds,
        "output_tokens": result.output_tokens,
        "prompt_tokens": result.prompt_tokens,
        "cached_tokens": result.cached_tokens,
        "timing_error_seconds": result.timing_error_seconds,
        "phases": {name: result.phases.get(name) for name in ("dns", "connect", "tls", "headers")},
        "figures": dict(result.figures),
        "flags": list(result.flags),
        "request_id": result.request_id,
        "detail": result.detail,
    }


def percentile(ordered: Sequence[float], ratio: float) -> float | None:
    """The linear percentile of ascending values, as numpy's; None for none."""
    if not ordered:
        return None
    rank = ratio * (len(ordered) - 1)
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)
