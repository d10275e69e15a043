"""The standard burn-rate pairs, read from burn_windows.yaml, where their source stands."""

from pathlib import Path

import yaml

from agent.model import BurnPair

FILE = Path(__file__).with_name("burn_windows.yaml")  # a link to rules/burn_windows.yaml; a wheel has the file itself


def standard_pairs(period_seconds: float) -> tuple[BurnPair, ...]:
    """The pairs for an SLO of this period: a factor keeps the share of budget that its long window may spend.

    Factors never fall below 1: such a pair would alert on a service that keeps its promise. Pairs whose long window
    does not fit the period are left out.
    """
    pairs = []
    for row in yaml.safe_load(FILE.read_text(encoding="utf-8")):
        factor = row["budget_ratio"] * period_seconds / row["long_seconds"]
        if row["long_seconds"] < period_seconds:
            pairs.append(
                BurnPair(row["severity"], row["tier"], row["short_seconds"], row["long_seconds"], max(1.0, factor))
            )
    return tuple(pairs)
