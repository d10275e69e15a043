"""What all canaries together may take from a target."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Ratio = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class CanaryLimits(BaseModel):
    """What all canaries together may take from one target; what goes beyond is not sent, and that is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(default=True, description="false sends no canary to anybody: the switch for emergencies.")
    tokens_per_hour: int = Field(
        100_000, ge=0, description="Most prompt and output tokens an hour on one target, of all kinds."
    )
    traffic_ratio: Ratio = Field(
        0.005, description="Most of it as a share of the users' own tokens in the last hour; for the dear kinds."
    )
    idle_tokens_per_hour: int = Field(
        30_000, ge=0, description="What dear kinds may take however little the users do, tokens an hour."
    )
    max_requests_waiting: int = Field(0, ge=0, description="Dear kinds wait while more requests than these wait.")
    max_kv_usage_ratio: Ratio = Field(0.9, description="Dear kinds wait while the KV cache is fuller than this.")
    warm_up_seconds: float = Field(
        0,
        ge=0,
        allow_inf_nan=False,
        description="A target that has never answered may refuse for so long; it is loading, not down. Seconds.",
    )
