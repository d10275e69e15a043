"""What the engine has counted of one canary: one request, so many tokens, and an interval for each observation."""

from collections.abc import Iterator
from dataclasses import dataclass

from agent.raw import SignalKey
from probes.sample import SentRequest


@dataclass(frozen=True, slots=True)
class Observed:
    """One observation that some page must show: between `low` and `high` seconds, within these times."""

    signal: str
    at_seconds: float
    until_seconds: float
    low: float
    high: float


@dataclass(slots=True)
class Counted:
    """So much of a counter that pages must show, within these times."""

    place: SignalKey
    at_seconds: float
    until_seconds: float
    amount: float


Share = Observed | Counted


def shares_of(sent: SentRequest, way_back: float) -> Iterator[Share]:
    """Everything that the engine has counted of one request; what broke off before its end is not counted as ended.

    Of what only the engine knows, the queue and the prefill, no more is known than that both are part of TTFT.
    """
    error = sent.timing_error_seconds
    before_and_after = sent.head_seconds + way_back + error
    if sent.first_token_at_seconds is None or sent.ttft_seconds is None:
        return
    sent_at, first_at, end_at = sent.sent_at_seconds, sent.first_token_at_seconds, sent.ended_at_seconds
    ttft = sent.ttft_seconds
    yield Observed("ttft_seconds", first_at - way_back, first_at, max(0.0, ttft - before_and_after), ttft + error)
    yield from _counted("prompt_tokens_total", "", (first_at - way_back, first_at), sent.prompt_tokens)
    yield from _counted("generation_tokens_total", "", (first_at - way_back, end_at), sent.output_tokens)
    if sent.cached_tokens is not None:
        yield from _counted("prefix_cache_queried_tokens_total", "", (sent_at, first_at), sent.prompt_tokens)
        yield from _counted("prefix_cache_hit_tokens_total", "", (sent_at, first_at), sent.cached_tokens)
    for shortest, longest in _gaps(sent):
        low, high = max(0.0, shortest - way_back - error), longest + way_back + error
        yield Observed("itl_seconds", first_at - way_back, end_at, low, high)
    if not sent.finish_reason or sent.e2e_seconds is None:
        return
    e2e = sent.e2e_seconds
    last_at = sent_at + e2e - way_back
    yield from _counted("requests_finished_total", sent.finish_reason, (last_at, end_at), 1)
    yield Observed("e2e_seconds", last_at, end_at, max(0.0, e2e - before_and_after), e2e + error)
    yield Observed("queue_seconds", last_at, end_at, 0.0, ttft + error)
    yield Observed("prefill_seconds", last_at, end_at, 0.0, ttft + error)
    yield from _pace(sent, (last_at, end_at), way_back)


def _gaps(sent: SentRequest) -> list[tuple[float, float]]:
    """The engine observes one a step: as many as there are tokens after the first one, without speculation.

    Where the client saw fewer, tokens came together, and how they shared the time before them is not known.
    """
    gaps = [(gap, gap) for gap in sent.itl_gaps_seconds]
    steps = (sent.output_tokens or 0) - 1
    return gaps if steps <= len(gaps) else [(0.0, max((*sent.itl_gaps_seconds, sent.e2e_seconds or 0.0)))] * steps


def _pace(sent: SentRequest, within: tuple[float, float], way_back: float) -> Iterator[Observed]:
    if sent.output_tokens is not None and sent.output_tokens <= 1:
        yield Observed("tpot_seconds", *within, 0.0, 0.0)
    elif sent.tpot_seconds is None and sent.output_tokens is not None and sent.e2e_seconds is not None:
        yield Observed("tpot_seconds", *within, 0.0, sent.e2e_seconds / (sent.output_tokens - 1))
    elif sent.tpot_seconds is not None:
        slack = (way_back + sent.timing_error_seconds) / max(1, (sent.output_tokens or 2) - 1)
        yield Observed("tpot_seconds", *within, max(0.0, sent.tpot_seconds - slack), sent.tpot_seconds + slack)


def _counted(signal: str, label: str, within: tuple[float, float], amount: int | None) -> Iterator[Counted]:
    if amount:
        yield Counted((signal, label), *within, float(amount))
