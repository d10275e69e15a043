"""The standard burn-rate pairs, read from rules/burn_windows.yaml, where their source stands."""

import sys
from pathlib import Path
from typing import Any

import yaml

from agent.errors import UsageError
from agent.model import BurnPair

FILE = "burn_windows.yaml"
PLACES = (Path(__file__).parents[1] / "rules", Path(sys.prefix) / "share" / "vllm-slo-agent" / "rules")
POLICY_PERIOD_SECONDS = 30 * 86_400.0


def standard_pairs(period_seconds: float) -> tuple[BurnPair, ...]:
    """The pairs for an SLO of this period: a factor keeps the share of budget that its long window may spend.

    Factors never fall below 1: such a pair would alert on a service that keeps its promise. Pairs whose long window
    does not fit the period are left out. Raises UsageError when the file is not installed.
    """
    pairs = []
    for row in _rows():
        factor = row["budget_ratio"] * period_seconds / row["long_seconds"]
        if row["long_seconds"] < period_seconds:
            pairs.append(
                BurnPair(row["severity"], row["tier"], row["short_seconds"], row["long_seconds"], max(1.0, factor))
            )
    return tuple(pairs)


def _rows() -> list[dict[str, Any]]:
    for place in PLACES:
        if (place / FILE).is_file():
            rows: list[dict[str, Any]] = yaml.safe_load((place / FILE).read_text(encoding="utf-8"))
            return rows
    raise UsageError(f"{FILE} is not installed", f"Expected it in one of {', '.join(map(str, PLACES))}.")
