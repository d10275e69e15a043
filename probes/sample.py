"""The types every reading is made of. Frozen: a reading is a fact, and facts do not change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["counter", "gauge"]
USER_KINDS = ("chat", "completion", "responses", "embedding")


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of one engine, under our own signal name (which carries the unit).

    `label` is the one further label a signal may have (finish reason, token source, cache tier); "" for none.
    `value` is finite: what was NaN, infinite or a sentinel on the page never becomes a sample.
    """

    signal: str
    kind: Kind
    engine: str
    model: str
    value: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class HistogramSample:
    """One histogram of one engine, as served: cumulative counts over ascending upper edges.

    `edges[-1]` is `math.inf`; `counts[i]` observations were <= `edges[i]`, so `counts[-1]` is the total.
    `total` is the sum of all observations in the unit of the signal's name, None where the page had none.
    """

    signal: str
    engine: str
    model: str
    edges: tuple[float, ...]
    counts: tuple[float, ...]
    total: float | None
    label: str = ""


@dataclass(frozen=True, slots=True)
class PageWarning:
    """Something a reader should know about a page: a closed `code` for machines, a sentence for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look at one target brought.

    `outcome` is "ok" or the reason why there is nothing ("connect_refused", "timeout", "status_401", "html", ...);
    when it is not "ok", samples and histograms are empty and mean *unknown*, never zero.
    `process_start_seconds` (unix) tells a restart apart from a slow counter; None where the page does not say.
    """

    target: str
    source: str
    at_seconds: float
    outcome: str = "ok"
    detail: str = ""
    samples: tuple[Sample, ...] = ()
    histograms: tuple[HistogramSample, ...] = ()
    process_start_seconds: float | None = None
    warnings: tuple[PageWarning, ...] = ()
    body_bytes: int = 0
    duration_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One completion that a canary asked an engine for, as the client saw it: what the engine has counted of it.

    `sent_at_seconds`, `first_token_at_seconds` and `ended_at_seconds` are unix times; no first token: none came.
    `head_seconds` is how long the head of the answer took, of which the engine's own clock may have missed all.
    `finish_reason` is "" where the answer was cut off: then the engine has no finished request to count.
    `rank` is the data-parallel rank that was asked for, "" where the server chose. `target` is the one that was asked,
    "" in older recordings: that of the result.
    """

    sent_at_seconds: float
    ended_at_seconds: float
    model: str = ""
    first_token_at_seconds: float | None = None
    head_seconds: float = 0.0
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    e2e_seconds: float | None = None
    itl_gaps_seconds: tuple[float, ...] = ()
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str = ""
    timing_error_seconds: float = 0.0
    rank: str = ""
    target: str = ""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What one canary request felt like. Durations in seconds, `None` where the stream did not show it.

    `outcome` is "ok", one of the failure classes of probes/stream.py, "missed" (the scheduler could not run it in its
    time) or "skipped_*". `planned_at_seconds` is when it should have started, so that lateness stays visible.
    `first_event_seconds` is the first event of any kind, as a role without text: what some benchmarks call TTFT.
    `itl_gaps_seconds` are the gaps between token events, one each, empty when no per-token figure can be given.
    `timing_error_seconds` bounds how far the client itself (event-loop lag, clock) can have moved a time stamp.
    `figures` are those that only this kind of canary has, by the names of probes/canary/kind_figures.py.
    `sent` are the completions it asked for, one or several; none where the engine was asked nothing.
    `rank` is the data-parallel rank it was meant for, "" where it went to whichever the server chose.
    """

    target: str
    kind: str
    outcome: str
    planned_at_seconds: float
    at_seconds: float
    model: str = ""
    ttft_seconds: float | None = None
    first_text_seconds: float | None = None
    tpot_seconds: float | None = None
    itl_gaps_seconds: tuple[float, ...] = ()
    e2e_seconds: float | None = None
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    timing_error_seconds: float | None = None
    phases: Mapping[str, float | None] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    request_id: str = ""
    detail: str = ""
    figures: Mapping[str, float | None] = field(default_factory=dict)
    sent: tuple[SentRequest, ...] = ()
    rank: str = ""
    first_event_seconds: float | None = None

    def sent_by_target(self) -> dict[str, tuple[SentRequest, ...]]:
        """What each target was asked: the result's own, and another one where half of it went there."""
        targets = dict.fromkeys((self.target, *(one.target or self.target for one in self.sent)))
        return {name: tuple(one for one in self.sent if (one.target or self.target) == name) for name in targets}

    @property
    def feels_like_a_user(self) -> bool:
        """False for the kinds that ask what no user asks: they explain, and are no events of an SLO."""
        return self.kind in USER_KINDS

    @property
    def is_timed_well(self) -> bool:
        """False where this machine was so busy that the times say too little: they are told, and not used."""
        return "client_lag" not in self.flags

    @property
    def is_ok(self) -> bool:
        return self.outcome == "ok"
