"""The promises, and the time that does not count for them."""

from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, AwareDatetime, Field, field_validator, model_validator

from agent.config_base import DAY_SECONDS, LONGEST_SECONDS, Name, Ratio, Section
from agent.model import SliName, SliSource
from agent.sli.router import HISTOGRAMS as ROUTER_HISTOGRAMS
from agent.sli.span import SPAN_SLIS
from probes.units import Seconds


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise ValueError("this machine knows no such time zone. Write one such as Europe/Berlin, or UTC") from None
    return name


TimeZone = Annotated[str, AfterValidator(_known_zone)]


class Slo(Section):
    """One promise to the users."""

    name: Name = Field(description="Its name in alerts, metrics and pages.")
    service: Name = Field("llm", description="The service that makes the promise.")
    sli: SliName = Field(
        description="What is counted: availability, ttft, itl, tpot, e2e, queue, goodput, stall or correctness; "
        "composite: other SLOs."
    )
    source: SliSource | None = Field(
        None,
        description="engine: all users' requests, from vLLM's counters; span: the same one by one, from their spans; "
        "router: the router's counters, which see what never reached an engine; canary: ours. Default: engine; "
        "stall, correctness: canary.",
    )
    objective_ratio: Ratio = Field(description="Share of good events promised, such as 0.995.")
    period_seconds: Seconds = Field(
        30 * DAY_SECONDS,
        le=LONGEST_SECONDS,
        description="Rolling period of the error budget, at most 93 days. Seconds.",
    )
    calendar: Literal["day", "week", "month", "quarter"] | None = Field(
        None, description="The budget runs over the present day, week, month or quarter instead; default: it rolls."
    )
    time_zone: TimeZone = Field("UTC", description="By whose clocks a calendar period begins, such as Europe/Berlin.")
    epoch: AwareDatetime | None = Field(
        None, description="The budget counts nothing before it, such as 2026-01-31T12:00:00Z; burn rates do."
    )
    policy: str = Field(
        "", description="What was agreed to happen when the budget is spent; stands in the alerts and on the page."
    )
    threshold_seconds: Seconds | None = Field(
        None, description="Latency of a good event; availability: when a request must end; stall: longest gap. Seconds."
    )
    undecided: Literal["bad", "good"] = Field(
        "bad", description="How events count that lie in the histogram bucket around the threshold, or sent no span."
    )
    model: str | None = Field(None, description="Only this served model; default: all.")
    role: Literal["aggregated", "prefill", "decode"] | None = Field(None, description="Only this role; default: all.")
    engine: str | None = Field(
        None,
        min_length=1,
        description="Only this engine (rank) of each target, by vLLM's label; default: all.",
    )
    labels: dict[str, str] = Field(
        default_factory=dict,
        description="Only targets with these labels, such as {tier: premium} where a tenant or a priority has its own.",
    )
    violated_minute_dollars: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="What a minute costs in which every request is bad: credits, lost work. Default: unknown.",
    )
    slice_seconds: Seconds | None = Field(
        None,
        multiple_of=60,
        le=3_600,
        description="The budget counts slices of time so long (whole minutes) instead of events; default: events. "
        "Seconds.",
    )
    slice_good_ratio: Ratio | None = Field(
        None, description="Share of good events that makes a slice a good one, such as 0.95; needs slice_seconds."
    )
    all_of: list[str] = Field(
        default_factory=list,
        description="Of sli composite: the SLOs that must all be good in a slice, each with the same slice_seconds.",
    )
    tickets_only: bool = Field(default=False, description="Nobody is woken: burn pairs that would page are left out.")
    runbook_url: str = Field("", description="What whoever is paged should open.")

    @field_validator("objective_ratio", "slice_good_ratio", mode="before")
    @classmethod
    def _not_percent(cls, value: object) -> object:
        if isinstance(value, int | float) and not isinstance(value, bool) and 1 < value < 100:
            raise ValueError(f"expected a ratio between 0 and 1. Write {value / 100:g}")
        return value

    @model_validator(mode="after")
    def _engine_is_of_pages(self) -> Self:
        if self.engine is not None and (self.source or ("canary" if self.sli == "stall" else "engine")) != "engine":
            raise ValueError(
                f"only pages tell engines apart; take engine out, or write source: engine (not {self.source})"
            )
        return self

    @model_validator(mode="after")
    def _slices_are_whole(self) -> Self:
        if (self.slice_seconds is None) != (self.slice_good_ratio is None):
            raise ValueError(
                "slice_seconds and slice_good_ratio go together, such as slice_seconds: 60, slice_good_ratio: 0.95"
            )
        return self

    @model_validator(mode="after")
    def _one_period(self) -> Self:
        if self.calendar is not None and self.period_seconds != type(self).model_fields["period_seconds"].default:
            raise ValueError("a calendar period and period_seconds are two periods. Take one of them out")
        return self

    @model_validator(mode="after")
    def _composite_is_of_others(self) -> Self:
        if (self.sli == "composite") != bool(self.all_of) or (self.source == "slos" and not self.all_of):
            raise ValueError(
                "all_of belongs to sli composite. Write both, such as all_of: [ttft-minutes, tpot-minutes]"
            )
        own = (self.threshold_seconds, self.slice_seconds, self.model, self.role, self.engine)
        if self.all_of and (any(one is not None for one in own) or self.labels or self.source not in (None, "slos")):
            raise ValueError(
                "a composite counts what its members count: take out its source, threshold_seconds, slice_seconds, "
                "slice_good_ratio, model, role, engine and labels"
            )
        return self

    @model_validator(mode="after")
    def _threshold_where_needed(self) -> Self:
        if self.sli == "composite":
            return self
        if self.sli != "correctness":
            return self._as_latencies_count()
        if self.source not in (None, "canary") or self.threshold_seconds is not None:
            raise ValueError("sli correctness is told by canaries alone, and has no threshold_seconds")
        return self

    def _as_latencies_count(self) -> Self:
        if self.source == "span" and self.sli not in SPAN_SLIS:
            why = "requests that were refused send none" if self.sli == "availability" else "they hold no single gaps"
            instead = "canary" if self.sli == "stall" else "engine"
            raise ValueError(f"spans cannot tell sli {self.sli}: {why}; write source: {instead}")
        if self.sli == "goodput":
            if self.threshold_seconds is not None:
                raise ValueError("sli goodput has no threshold_seconds: it takes those of the section goodput")
            return self
        if self.sli == "stall" and self.source == "engine":
            raise ValueError("vLLM does not count requests by their longest gap; write source: canary for sli stall")
        if self.sli != "availability" and self.threshold_seconds is None:
            raise ValueError(f"sli {self.sli} needs threshold_seconds, such as threshold_seconds: 2.5")
        if self.source == "router":
            return self._as_routers_count()
        if self.source == "canary" and self.sli in ("queue", "itl"):
            raise ValueError(f"a canary cannot see sli {self.sli} exactly; write source: engine")
        if self.sli == "availability" and self.source != "canary" and self.threshold_seconds is None:
            raise ValueError(
                "availability from the engine needs threshold_seconds: when a request is late; such as 300"
            )
        return self

    def _as_routers_count(self) -> Self:
        if self.sli != "availability" and self.sli not in ROUTER_HISTOGRAMS:
            raise ValueError(f"a router does not count sli {self.sli}; write source: engine or canary")
        if self.sli == "availability" and self.threshold_seconds is not None:
            raise ValueError("availability from a router has no threshold_seconds: it counts answers, not their times")
        return self


class Exclusion(Section):
    """Time that counts for nothing, good or bad: once, or every week. One written later changes the past as well."""

    reason: str = Field(min_length=1, description="Why; stands in `explain`, the API and on the page.")
    by: str = Field("", description="Who said so.")
    slos: list[str] = Field(default=["*"], min_length=1, description="SLO names, or * for all.")
    starts_at: AwareDatetime | None = Field(
        None, description="From when, such as 2026-01-31T12:00:00Z; of a weekly one: its first day."
    )
    ends_at: AwareDatetime | None = Field(None, description="Until when; a weekly one without it goes on for ever.")
    weekdays: list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] = Field(
        default_factory=list, description="Every week on these days; default: once, from starts_at to ends_at."
    )
    at: str | None = Field(None, pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description="Weekly: when on that day, HH:MM.")
    length_seconds: Seconds | None = Field(None, le=7 * DAY_SECONDS, description="Weekly: for how long. Seconds.")
    time_zone: TimeZone = Field("UTC", description="Weekly: by whose clocks, such as Europe/Berlin.")

    @field_validator("at", mode="before")
    @classmethod
    def _yaml_minutes(cls, value: object) -> object:
        """YAML 1.1 reads a plain 12:30 as 750."""
        is_minutes = isinstance(value, int) and not isinstance(value, bool)
        return f"{value // 60:02d}:{value % 60:02d}" if is_minutes else value  # type: ignore[operator]  # an int

    @model_validator(mode="after")
    def _once_or_weekly(self) -> Self:
        if self.weekdays:
            if self.at is None or self.length_seconds is None:
                raise ValueError(
                    'a weekly exclusion needs at and length_seconds, such as at: "02:00", length_seconds: 3600'
                )
        elif self.at is not None or self.length_seconds is not None:
            raise ValueError("at and length_seconds are of a weekly exclusion. Write weekdays, such as [sun]")
        elif self.starts_at is None or self.ends_at is None:
            raise ValueError("expected starts_at and ends_at, or weekdays. Write 2026-01-31T12:00:00Z for a time")
        if self.starts_at and self.ends_at and self.starts_at >= self.ends_at:
            raise ValueError("starts_at is not before ends_at. Swap them")
        return self
