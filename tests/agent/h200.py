"""The recording of a real H200 under load, with what the clients of the same runs measured (not in the repository)."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("SLO_AGENT_SHARED") or ROOT.parent / "shared")
RECORDING = SHARED / "data" / "h200" / "closed_loop_sweep.jsonl.gz"

needs_h200 = pytest.mark.skipif(
    not RECORDING.is_file(), reason=f"{RECORDING} is not there: set SLO_AGENT_SHARED to the folder that holds data/h200"
)


def stretches() -> Mapping[int, tuple[float, float]]:
    """Concurrency -> from, to (unix seconds); the engine is idle at both ends."""
    lines = RECORDING.with_name("closed_loop_sweep.marks.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {int(concurrency): (float(start), float(end)) for concurrency, start, end in rows}


def client(concurrency: int) -> Mapping[str, float]:
    """The result of `vllm bench serve`, its own keys."""
    results: dict[str, dict[str, float]] = json.loads(
        RECORDING.with_name("closed_loop_sweep.client.json").read_text(encoding="utf-8")
    )
    return results[f"c{concurrency}"]
