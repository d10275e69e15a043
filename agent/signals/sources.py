"""Of several sources for one figure the best, and a warning where two cannot both be true, with the likeliest cause.

Spans are exact for every request, where they all come; histograms have every request within a bucket; canaries are
ours, exact, few, and short. Only bounds that do not touch are a disagreement: everything else may be the same truth.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from agent.model import Figure, Latency
from agent.signals.model import Signals

WHOLE_RATIO = 0.95  # of the requests have sent their span: enough to stand for all
POLLUTED_RATIO = 1.05  # more spans than requests: somebody else's are among them
FEWEST = 20.0  # requests; fewer may differ by who is counted in which reading
FEWEST_CANARIES = 5.0
PERCENTILES = ("p50", "p90", "p95", "p99")
PAIRS = {"TTFT": "ttft_seconds", "TPOT": "tpot_seconds", "E2E": "e2e_seconds"}


def with_sources(signals: Signals) -> Signals:
    """The signals with `best_source` by latency, and `disagreements` in words."""
    return replace(signals, best_source=_best(signals), disagreements=tuple(_disagreements(signals)))


def _best(signals: Signals) -> Mapping[str, str]:
    """Spans where nearly all came, else the engine's histogram, else canaries; nothing where nobody tells."""
    whole = signals.span_coverage_ratio is not None and signals.span_coverage_ratio >= WHOLE_RATIO
    best = {}
    for signal in ("ttft_seconds", "itl_seconds", "tpot_seconds", "e2e_seconds"):
        spans, engine, canary = (getattr(signals, f"{who}{signal}", None) for who in ("span_", "", "canary_"))
        found = "span" if spans and whole else "engine" if engine else "span" if spans else "canary" if canary else None
        if found is not None:
            best[signal] = found
    return best


def _disagreements(signals: Signals) -> Iterator[str]:
    share = signals.span_coverage_ratio
    if share is not None and share > POLLUTED_RATIO:
        yield (
            f"spans tell of {share:.0%} of the requests that the page counts: likely pollution, by spans of another "
            f"server or a page of one process of several"
        )
    elif share is not None and share >= WHOLE_RATIO:
        for name, signal in PAIRS.items():
            yield from _spans_and_engine(name, getattr(signals, f"span_{signal}"), getattr(signals, signal))
        yield from _goodput(signals.span_goodput_ratio, signals.goodput_ratio)
    yield from _canaries_and_engine(signals.canary_ttft_seconds, signals.ttft_seconds)


def _spans_and_engine(name: str, spans: Latency | None, engine: Latency | None) -> Iterator[str]:
    """The first percentile at which they part; one cause has them all."""
    if spans is None or engine is None or min(spans.count, engine.count) < FEWEST:
        return
    for percentile in PERCENTILES:
        one, other = getattr(spans, percentile), getattr(engine, percentile)
        if one is None or other is None:
            continue
        apart = f"{name} {percentile} is {_words(one)} by spans and {_words(other)} by the engine's histogram"
        if _is_above(one, other):
            yield f"{apart}: likely the front end, whose time spans have and the engine's histogram has not"
            return
        if _is_above(other, one):
            yield f"{apart}: likely a clock that was set, or spans that lack the slow requests"
            return


def _goodput(spans: Figure | None, engine: Figure | None) -> Iterator[str]:
    if spans is None or engine is None or min(spans.count, engine.count) < FEWEST:
        return
    if _is_above(spans, engine) or _is_above(engine, spans):
        yield (
            f"goodput is {_words(spans, 1)} by spans and {_words(engine, 1)} by the engine's histograms: likely spans "
            f"of other requests than the page counts"
        )


def _canaries_and_engine(canaries: Latency | None, engine: Latency | None) -> Iterator[str]:
    """A canary's prompt is short: the median of them is not slower than nine of ten users' first tokens."""
    if canaries is None or engine is None or canaries.p50 is None or engine.p90 is None:
        return
    if canaries.count >= FEWEST_CANARIES and engine.count >= FEWEST and _is_above(canaries.p50, engine.p90):
        yield (
            f"half of the canaries wait {_words(canaries.p50)} for a first token, and nine of ten users at most "
            f"{_words(engine.p90)} in the engine: likely a proxy, a gateway or the network between"
        )


def _is_above(one: Figure, other: Figure) -> bool:
    return one.low is not None and other.high is not None and one.low > other.high


def _words(figure: Figure, scale: float = 1_000.0) -> str:
    unit = " ms" if scale != 1 else ""
    low, high = (None if edge is None else f"{edge * scale:.3g}" for edge in (figure.low, figure.high))
    return f"{low}{unit}" if low == high else f"{low} to {high or 'any'}{unit}"
