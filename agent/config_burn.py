"""When a burning budget alerts."""

from typing import Self

from pydantic import Field, model_validator

from agent.config_base import DAY_SECONDS, LONGEST_SECONDS, Section
from agent.model import Severity, Tier
from probes.units import Seconds


class BurnWindow(Section):
    """One burn-rate pair of your own."""

    severity: Severity = Field(description="page or ticket.")
    tier: Tier = Field(description="fast, slow or trend; with severity it is the alert's identity.")
    short_seconds: Seconds = Field(description="Short window, seconds: ends the alert soon after recovery.")
    long_seconds: Seconds = Field(le=LONGEST_SECONDS, description="Long window, seconds: keeps a blip from paging.")
    factor: float = Field(
        ge=1,
        allow_inf_nan=False,
        description="Burn rate above which both windows must be; 1 spends the budget exactly.",
    )

    @model_validator(mode="after")
    def _short_is_shorter(self) -> Self:
        if self.short_seconds >= self.long_seconds:
            raise ValueError("short_seconds must be smaller than long_seconds")
        return self


class BurnPolicy(Section):
    """When a burning budget alerts."""

    windows: list[BurnWindow] = Field(
        default_factory=list,
        description="Own pairs; empty: the standard ones, derived anew for loose objectives (docs/slo.md).",
    )
    min_bad_events: int = Field(3, ge=1, description="A pair needs at least so many bad events in its long window.")
    volume_gate: bool = Field(
        default=True,
        description="Below half of the period's mean traffic a pair waits until half its share of the budget is spent.",
    )
    calm_windows: float = Field(
        3.0,
        ge=0,
        le=100,
        allow_inf_nan=False,
        description="An alert that comes back within its long window ends after so many calm short windows; 0: none.",
    )
    hold_seconds: Seconds = Field(
        DAY_SECONDS, description="An alert survives so long after the last event that was counted. Seconds."
    )
