"""From the config's SLOs to the core's, with their burn pairs."""

from importlib.resources import files
from typing import Any

import yaml

from agent.config import Config
from agent.config import Slo as SloItem
from agent.model import BurnPair, Slo


def promises(config: Config) -> tuple[Slo, ...]:
    """The SLOs of `config` as the core knows them, in the order of the file."""
    return tuple(
        Slo(
            name=item.name,
            service=item.service,
            sli=item.sli,
            source=item.source or "engine",
            objective_ratio=item.objective_ratio,
            period_seconds=item.period_seconds,
            pairs=_pairs(config, item),
            threshold_seconds=item.threshold_seconds,
            model=item.model,
            role=item.role,
            undecided=item.undecided,
            min_bad_events=config.burn.min_bad_events,
            runbook_url=item.runbook_url,
        )
        for item in config.slos
    )


def _pairs(config: Config, item: SloItem) -> tuple[BurnPair, ...]:
    if config.burn.windows:
        own = config.burn.windows
        return tuple(BurnPair(w.severity, w.tier, w.short_seconds, w.long_seconds, w.factor) for w in own)
    rows: list[dict[str, Any]] = yaml.safe_load(files("agent").joinpath("burn_windows.yaml").read_text("utf-8"))
    return tuple(
        BurnPair(
            severity=row["severity"],
            tier=row["tier"],
            short_seconds=row["short_seconds"],
            long_seconds=row["long_seconds"],
            factor=max(1.0, row["budget_ratio"] * item.period_seconds / row["long_seconds"]),
        )
        for row in rows
        if row["long_seconds"] < item.period_seconds
    )
