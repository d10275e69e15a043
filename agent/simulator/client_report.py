"""What the clients of a run measured, with the keys of `vllm bench serve`'s result JSON."""

from bisect import bisect_right
from collections.abc import Iterable
from statistics import fmean, pstdev

from agent.simulator.ask import Sequence

PERCENTILES = (50, 90, 95, 99)


def client_report(
    ended: Iterable[Sequence], gaps: list[float], start_seconds: float, *, concurrency: int | None, rate: float | None
) -> dict[str, float | int | str | None]:
    """The run's figures; times in milliseconds, as the bench has them.

    `gaps` are seconds between tokens, ascending. A figure without an event behind it is None; the bench writes 0.
    """
    every = list(ended)
    done = [sequence for sequence in every if sequence.state == "finished"]
    last = max((sequence.ended_at_seconds or start_seconds for sequence in every), default=start_seconds)
    duration = last - start_seconds
    inputs = sum(sequence.ask.prompt_tokens for sequence in done)
    outputs = sum(sequence.generated_tokens for sequence in done)
    report: dict[str, float | int | str | None] = {
        "max_concurrency": concurrency,
        "num_prompts": len(every),
        "request_rate": "inf" if rate is None else rate,
        "duration": duration,
        "completed": len(done),
        "failed": len(every) - len(done),
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(done) / duration if duration else None,
        "output_throughput": outputs / duration if duration else None,
        "total_token_throughput": (inputs + outputs) / duration if duration else None,
    }
    ttft = [sequence.client_ttft_seconds for sequence in done]
    report |= _figures("ttft", _known(ttft))
    report |= _figures("tpot", _known(_tpot(sequence) for sequence in done))
    report |= _figures("itl", gaps)
    report |= _figures("e2el", _known(_e2e(sequence) for sequence in done))
    return report


def percentile(ascending: list[float], percent: float) -> float | None:
    """numpy's linear percentile; None over nothing."""
    if not ascending:
        return None
    rank = percent / 100 * (len(ascending) - 1)
    below = int(rank)
    low, high = ascending[below], ascending[min(below + 1, len(ascending) - 1)]
    return low + (high - low) * (rank - below)


def share_over(ascending: list[float], threshold_seconds: float) -> float | None:
    """Which part of the values is larger than the threshold; None over nothing."""
    return 1 - bisect_right(ascending, threshold_seconds) / len(ascending) if ascending else None


def _figures(name: str, ascending: list[float]) -> dict[str, float | None]:
    mean = fmean(ascending) if ascending else None
    return {
        f"mean_{name}_ms": _ms(mean),
        f"median_{name}_ms": _ms(percentile(ascending, 50)),
        f"std_{name}_ms": _ms(pstdev(ascending, mean) if ascending else None),
        **{f"p{percent}_{name}_ms": _ms(percentile(ascending, percent)) for percent in PERCENTILES},
    }


def _known(values: Iterable[float | None]) -> list[float]:
    return sorted(value for value in values if value is not None)


def _tpot(sequence: Sequence) -> float | None:
    first, last = sequence.first_token_at_seconds, sequence.last_token_at_seconds
    if first is None or last is None or sequence.generated_tokens < 2:
        return None
    return (last - first) / (sequence.generated_tokens - 1)


def _e2e(sequence: Sequence) -> float | None:
    if sequence.ended_at_seconds is None:
        return None
    sent = sequence.arrived_at_seconds if sequence.sent_at_seconds is None else sequence.sent_at_seconds
    return sequence.ended_at_seconds - sent


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
