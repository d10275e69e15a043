"""The standard burn-rate pairs, read from burn_windows.yaml, where their source stands."""

from math import ceil
from pathlib import Path

import yaml

from agent.model import BurnPair

FILE = Path(__file__).with_name("burn_windows.yaml")  # a link to rules/burn_windows.yaml; a wheel has the file itself


MOST_BAD_RATIO = 0.4  # a pair that needs more bad events than this to fire is derived anew: facts of slo.md, 3.2
GRID_SECONDS = 720.0  # long windows are whole multiples, so that the twelfth of one is whole minutes


def pairs_for(objective_ratio: float, period_seconds: float) -> tuple[BurnPair, ...]:
    """The standard pairs, derived anew where they could hardly fire.

    At an objective of 95 % the factor 14.4 asks for more than 72 % bad events, at 90 % for more than there are. Such a
    pair gets the factor that asks for 40 %, and a long window in which that spends the same share of the budget:
    L = share * period / factor, S = L / 12. So a full outage is told as soon as before, a half one as well.
    """
    most = MOST_BAD_RATIO / (1.0 - objective_ratio)
    return tuple(pair if pair.factor <= most else _derived(pair, most) for pair in standard_pairs(period_seconds))


def _derived(pair: BurnPair, most: float) -> BurnPair:
    spent = pair.factor * pair.long_seconds
    long_seconds = ceil(round(spent / max(most, 1.0) / GRID_SECONDS, 6)) * GRID_SECONDS
    return BurnPair(pair.severity, pair.tier, long_seconds / 12, long_seconds, max(1.0, spent / long_seconds))


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
