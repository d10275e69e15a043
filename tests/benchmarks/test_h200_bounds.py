"""The clients' percentiles of a real H200 beside the agent's bounds, as one table."""

# ruff: noqa: T201 - a benchmark prints

from h200 import RECORDING, client, needs_h200, stretches

from agent.model import Latency
from agent.report import Stretch, report
from agent.signals.read import Question

NAMES = {"ttft_seconds": "ttft", "tpot_seconds": "tpot", "itl_seconds": "itl", "e2e_seconds": "e2el"}


@needs_h200
def test_every_client_percentile_lies_within_our_bounds() -> None:
    """TTFT and E2E less the mean difference between client and server, which is printed."""
    print(
        "\n conc  signal        path ms |"
        + "".join(f"{q:>7} client   bounds ms      " for q in ("p50", "p90", "p95", "p99"))
    )
    held = missed = 0
    for concurrency, (start, end) in stretches().items():
        signals, truth = report(RECORDING, Stretch(start, end), Question()).targets["vllm-0"], client(concurrency)
        for signal, name in NAMES.items():
            latency = getattr(signals, signal)
            assert isinstance(latency, Latency)
            assert latency.mean is not None
            path = truth[f"mean_{name}_ms"] - latency.mean * 1e3 if name in ("ttft", "e2el") else 0.0
            row = f"{concurrency:>5}  {signal:<13} {path:>7.1f} |"
            for quantile in ("p50", "p90", "p95", "p99"):
                measured, figure = truth.get(f"{quantile}_{name}_ms"), getattr(latency, quantile)
                if measured is None or figure is None:
                    row += f"{'':>15}{'':>17}"
                    continue
                low, high = figure.low * 1e3, figure.high * 1e3
                row += f"{measured - path:>14.1f} {f'[{low:.0f}..{high:.0f}]':>17}"
                held += low <= measured - path <= high
                missed += not low <= measured - path <= high
            print(row)
    print(f"held {held}, missed {missed}")
    assert missed == 0
