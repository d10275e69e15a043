"""The token budget of a step, inferred: vLLM's pages do not tell `max_num_batched_tokens`."""

from agent.advice.step_model import StepModel
from agent.stats.buckets import Buckets

DEFAULT_TOKENS = 8192  # facts/h200.md: vLLM's default on GPUs of that size
CANDIDATES = tuple(2**power for power in range(9, 18))  # 512 to 131,072: budgets are powers of two in practice
LEAST_STEPS = 3.0  # full steps that prove a budget
LEAST_GAPS = 5.0  # long gaps that tell how long a full step is
LONG = 3.0  # times the mean gap: such a gap holds somebody's prefill
SEVERAL = 2.0  # prompts that fit into the bucket's lower edge: then the step held several, not one long one


def infer_token_budget(
    step_tokens: Buckets | None,
    gaps: Buckets | None,
    input_tokens: float | None,
    model: StepModel | None,
    decode_seconds: float,
) -> tuple[int, str]:
    """The budget in tokens and where it comes from, in words.

    Steps that hold several prompts fill up to the budget, so the upper edge of the highest bucket of
    `vllm:iteration_tokens_total` is it. A long prompt does not show it there: vLLM counts a prompt's tokens in the step
    that ends it, in whatever parts it was computed. Then the long gaps tell: so much longer than a decode step
    (`decode_seconds`) takes the part that was computed beside it.
    """
    top = _top_bucket(step_tokens, LEAST_STEPS)
    if top is not None and input_tokens is not None and top[0] >= SEVERAL * input_tokens and top[1] in CANDIDATES:
        return int(top[1]), f"vllm:iteration_tokens_total: full steps hold {top[0]:.0f} to {top[1]:.0f} tokens"
    longest = _long_bucket(gaps)
    if longest is not None and model is not None and model.prefill_seconds_per_token > 0 and input_tokens is not None:
        least, most = ((edge - decode_seconds) / model.prefill_seconds_per_token for edge in longest)
        told = f"most long gaps, {longest[0] * 1000:.0f} to {longest[1] * 1000:.0f} ms, hold {least:.0f} to {most:.0f}"
        fitting = [tokens for tokens in CANDIDATES if least <= tokens <= most]
        if len(fitting) == 1 and input_tokens >= SEVERAL * fitting[0]:
            return fitting[0], f"{told} prefilled tokens, and prompts are longer"
        at_least = next((tokens for tokens in CANDIDATES if tokens >= least), DEFAULT_TOKENS)
        if least > 0.5 * DEFAULT_TOKENS:
            return max(at_least, DEFAULT_TOKENS), f"at least that: {told} prefilled tokens"
    return DEFAULT_TOKENS, "assumed: vLLM's default on large GPUs; the pages do not show it"


def _top_bucket(buckets: Buckets | None, least: float) -> tuple[float, float] | None:
    """Edges of the highest bucket that holds at least so many, with all above it; None where it has no end."""
    if buckets is None:
        return None
    above = 0.0
    edges = (0.0, *buckets.edges)
    for place in reversed(range(len(buckets.counts))):
        above += buckets.counts[place]
        if above >= least:
            return (edges[place], edges[place + 1]) if edges[place + 1] < float("inf") else None
    return None


def _long_bucket(gaps: Buckets | None) -> tuple[float, float] | None:
    """Edges of the bucket that holds most of the long gaps."""
    if gaps is None or gaps.total is None or gaps.count <= 0:
        return None
    edges, least = (0.0, *gaps.edges), LONG * gaps.total / gaps.count
    long = [(count, place) for place, count in enumerate(gaps.counts) if edges[place] >= least]
    count, place = max(long, default=(0.0, 0))
    return (edges[place], edges[place + 1]) if count >= LEAST_GAPS and edges[place + 1] < float("inf") else None
