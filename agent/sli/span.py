"""Good and bad requests as their spans tell them: exact, one event each."""

from agent.model import Counts, SliName, Slo
from probes.spans.result import SpanResult

SPAN_SLIS: tuple[SliName, ...] = ("ttft", "tpot", "e2e", "queue", "goodput")
NOTHING, GOOD, BAD, UNDECIDED = Counts(), Counts(good=1), Counts(bad=1), Counts(undecided=1)


def span_counts(slo: Slo, span: SpanResult) -> Counts:
    """What one finished request adds to an SLO of SPAN_SLIS.

    A failed one is bad for every SLI. A canary of ours is no user's request and adds nothing; nor does an answer of one
    token to a TPOT SLO, since it has no pace. What the span does not say leaves the request undecided.
    """
    if span.is_canary or (slo.sli == "tpot" and span.is_ok and span.output_tokens == 1):
        return NOTHING
    if span.outcome == "failed":
        return BAD
    if slo.sli == "goodput":
        ttft, tpot = slo.ttft_seconds, slo.tpot_seconds
        keeps = None if ttft is None or tpot is None else span.keeps(ttft, tpot)
    else:
        figure = _figure(slo.sli, span)
        keeps = None if figure is None or slo.threshold_seconds is None else figure <= slo.threshold_seconds
    return UNDECIDED if keeps is None else GOOD if keeps else BAD


def _figure(sli: SliName, span: SpanResult) -> float | None:
    return {
        "ttft": span.ttft_seconds,
        "tpot": span.tpot_seconds,
        "e2e": span.e2e_seconds,
        "queue": span.queue_seconds,
    }.get(sli)
