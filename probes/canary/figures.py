"""The figures of one stream from its stamps: what the stream showed, and nothing more."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from probes.stream import ChatStream

# Two segments of one buffered answer arrive some 20 to 100 us apart; no engine decodes 20,000 tokens/s in one stream.
BUFFERED_TPOT_REAL_SECONDS: Final = 50e-6


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """Durations in seconds from the request sent; None where the stream did not show it."""

    first_event_seconds: float | None
    ttft_seconds: float | None
    first_text_seconds: float | None
    e2e_seconds: float | None
    tpot_seconds: float | None
    itl_gaps_seconds: tuple[float, ...]
    output_tokens: int | None
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Arrival:
    """The token events that came in one piece: `tokens` None when the server does not say how many they were."""

    at_seconds: float
    tokens: int | None


def stream_figures(stream: ChatStream, sent_at_seconds: float, real_seconds_per_second: float) -> StreamFigures:
    """TTFT = first token - sent; E2E = last token - sent; TPOT = (last - first) / (n - tokens in the first piece).

    Token counts come from the server's usage: running counts give each event's weight, a final count only when it
    equals the number of token events. Without them no per-token figure is given. Events of one piece share a stamp;
    they become one arrival, because a gap of 0 between them is no evidence of speed. All tokens in one piece:
    `buffered_stream`, no TPOT. `real_seconds_per_second` is what a second of the injected clock takes.

    Source: facts of aiperf and vLLM's benchmark on TPOT; the weights are those of `continuous_usage_stats`.
    """
    flags = dict(stream.flags)
    event_at = stream.first_event_at_seconds
    begun = None if event_at is None else event_at - sent_at_seconds
    if not stream.token_events:
        return StreamFigures(begun, None, None, None, None, (), stream.completion_tokens, tuple(flags))
    output_tokens = _output_tokens(stream, flags)
    arrivals = _arrivals(stream, flags)
    first, last = arrivals[0].at_seconds, arrivals[-1].at_seconds
    weights = [arrival.tokens for arrival in arrivals]
    tpot_seconds: float | None = None
    gaps: tuple[float, ...] = ()
    if None not in weights:
        rest = sum(weight or 0 for weight in weights[1:])
        tpot_seconds = (last - first) / rest if rest else None
        gaps = tuple(b.at_seconds - a.at_seconds for a, b in pairwise(arrivals))
    if _is_buffered(first, last, stream.tokens_seen, real_seconds_per_second):
        flags["buffered_stream"] = None
        tpot_seconds, gaps = None, ()
    text_at = stream.first_text_at_seconds
    return StreamFigures(
        first_event_seconds=begun,
        ttft_seconds=first - sent_at_seconds,
        first_text_seconds=None if text_at is None else text_at - sent_at_seconds,
        e2e_seconds=last - sent_at_seconds,
        tpot_seconds=tpot_seconds,
        itl_gaps_seconds=gaps,
        output_tokens=output_tokens,
        flags=tuple(flags),
    )


def _output_tokens(stream: ChatStream, flags: dict[str, None]) -> int | None:
    """The server's own count; None, and a flag, when it gives none or one that its events contradict."""
    if stream.completion_tokens is None:
        flags["usage_missing"] = None
        return None
    counts = [event.completion_tokens for event in stream.token_events]
    running = [count for count in counts if count is not None]
    # One event may show what was held back and generate nothing (a parser's last words); more contradict the count.
    idle = sum(after <= before for before, after in pairwise([0, *running]))
    if idle > 1 or stream.completion_tokens < len(counts) - idle:
        flags["usage_inconsistent"] = None
    return None if "usage_inconsistent" in flags else stream.completion_tokens


def _arrivals(stream: ChatStream, flags: dict[str, None]) -> list[_Arrival]:
    arrivals: list[_Arrival] = []
    for event, tokens in zip(stream.token_events, _weights(stream, flags), strict=True):
        if arrivals and arrivals[-1].at_seconds == event.at_seconds:
            flags["coalesced"] = None
            held = arrivals[-1].tokens
            arrivals[-1] = _Arrival(event.at_seconds, None if held is None or tokens is None else held + tokens)
        else:
            arrivals.append(_Arrival(event.at_seconds, tokens))
        if tokens is not None and tokens > 1:
            flags["multi_token_events"] = None
    return arrivals


def _weights(stream: ChatStream, flags: dict[str, None]) -> list[int | None]:
    """Tokens of each token event; all None when the server's counts do not tell."""
    unknown: list[int | None] = [None] * len(stream.token_events)
    if "usage_inconsistent" in flags or stream.completion_tokens is None:
        return unknown
    counts = [event.completion_tokens for event in stream.token_events]
    if None not in counts:
        running = [count or 0 for count in counts]
        return [after - before for before, after in pairwise([0, *running])]
    hidden = stream.completion_tokens - len(stream.token_events)  # the end-of-text token has no event of its own
    if counts.count(None) == len(counts) and (hidden == 0 or (hidden == 1 and stream.finish_reason == "stop")):
        return [1] * len(counts)
    flags["token_weights_unknown"] = None
    return unknown


def _is_buffered(first: float, last: float, tokens: int, real_seconds_per_second: float) -> bool:
    return tokens > 1 and (last - first) * real_seconds_per_second <= BUFFERED_TPOT_REAL_SECONDS * (tokens - 1)
