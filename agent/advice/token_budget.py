"""The token budget of a step: as said, or inferred. vLLM's pages do not tell `max_num_batched_tokens`."""

from dataclasses import dataclass

from agent.advice.engine_facts import WHERE, EngineFacts, Source
from agent.advice.step_model import StepModel
from agent.stats.buckets import Buckets

DEFAULT_TOKENS = 8192  # facts/h200.md: vLLM's default on GPUs of that size
CANDIDATES = tuple(2**power for power in range(9, 18))  # 512 to 131,072: budgets are powers of two in practice
LEAST_STEPS = 3.0  # full steps that prove a budget
LEAST_GAPS = 5.0  # long gaps that tell how long a full step is
LONGER = 0.2  # of them: so many may be longer still, with a larger batch beside the same prefill
LONG = 3.0  # times the mean gap: such a gap holds somebody's prefill
PILE = 0.5  # of the steps in the bucket below: at the budget steps pile up, by chance they get fewer and fewer
LONG_PROMPTS = 0.5  # of the full steps: then long prompts may be what fills them
DECODES = 1.25  # a full step holds decodes beside prompts: so much less of it may be prompts
SEVERAL = 2.0  # prompts that fit into the bucket's lower edge: then the step held several, not one long one


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The budget, where it comes from, and the same in words."""

    tokens: int
    source: Source
    words: str


def said_token_budget(facts: EngineFacts) -> TokenBudget | None:
    """What config or pod say; None where they do not."""
    if facts.token_budget is None:
        return None
    return TokenBudget(facts.token_budget, facts.source, f"said: {WHERE[facts.source]}")


def infer_token_budget(
    step_tokens: Buckets | None,
    gaps: Buckets | None,
    input_tokens: float | None,
    model: StepModel | None,
    decode_seconds: float,
    prompts: Buckets | None = None,
) -> TokenBudget:
    """The budget as far as what was observed tells it; else vLLM's default, assumed.

    Steps that hold several prompts fill up to the budget, so the upper edge of the highest bucket of
    `vllm:iteration_tokens_total` is it. A long prompt does not show it there: vLLM counts a prompt's tokens in the step
    that ends it, in whatever parts it was computed; so steps that prompts of their own length explain (`prompts`: the
    lengths of finished requests) prove nothing, and where others began in the step before, the longest gaps say that
    less was computed. Else the long gaps tell: so much longer than a decode step
    (`decode_seconds`) takes the part that was computed beside it.
    """
    top = _top_bucket(step_tokens, LEAST_STEPS)
    if top is not None and input_tokens is not None and _shows_budget(top, input_tokens, prompts):
        most = min(top[1], _most_tokens(gaps, model, decode_seconds))
        tokens = max((tokens for tokens in CANDIDATES if tokens <= most), default=CANDIDATES[0])
        words = f"vllm:iteration_tokens_total: full steps hold {top[0]:.0f} to {top[1]:.0f} tokens"
        if tokens < top[1]:
            words += f", with prompts begun before; no gap is as long as {top[1]:.0f} tokens take"
        return TokenBudget(tokens, "inferred", words)
    longest = _long_bucket(gaps)
    if longest is not None and model is not None and model.prefill_seconds_per_token > 0 and input_tokens is not None:
        least, most = ((edge - decode_seconds) / model.prefill_seconds_per_token for edge in longest)
        told = f"most long gaps, {longest[0] * 1000:.0f} to {longest[1] * 1000:.0f} ms, hold {least:.0f} to {most:.0f}"
        fitting = [tokens for tokens in CANDIDATES if least <= tokens <= most]
        if len(fitting) == 1 and input_tokens >= SEVERAL * fitting[0]:
            return TokenBudget(fitting[0], "inferred", f"{told} prefilled tokens, and prompts are longer")
        at_least = next((tokens for tokens in CANDIDATES if tokens >= least), DEFAULT_TOKENS)
        if least > 0.5 * DEFAULT_TOKENS:
            words = f"at least that: {told} prefilled tokens"
            return TokenBudget(max(at_least, DEFAULT_TOKENS), "inferred", words)
    return TokenBudget(DEFAULT_TOKENS, "assumed", "assumed: vLLM's default on large GPUs; the pages do not show it")


def _shows_budget(top: tuple[float, float, float, float], input_tokens: float, prompts: Buckets | None) -> bool:
    """Whether such full steps held several prompts, and not one long one, and are no chance of a light load."""
    is_several = top[0] >= SEVERAL * input_tokens and top[1] in CANDIDATES
    return is_several and top[2] >= PILE * top[3] and _longer_than(prompts, top[0]) <= LONG_PROMPTS * top[2]


def _most_tokens(gaps: Buckets | None, model: StepModel | None, decode_seconds: float) -> float:
    """How many prefilled tokens a step held at most, by the longest gaps; no bound where they do not tell."""
    longest = _top_bucket(gaps, LEAST_GAPS)
    if longest is None or model is None or model.prefill_seconds_per_token <= 0:
        return float("inf")
    return max(float(CANDIDATES[0]), DECODES * (longest[1] - decode_seconds) / model.prefill_seconds_per_token)


def _longer_than(prompts: Buckets | None, tokens: float) -> float:
    """How many prompts may be longer than that; 0 where lengths are not known."""
    if prompts is None:
        return 0.0
    return sum(count for edge, count in zip(prompts.edges, prompts.counts, strict=True) if edge > tokens)


def _top_bucket(buckets: Buckets | None, least: float) -> tuple[float, float, float, float] | None:
    """Edges of the highest bucket that holds at least so many, with all above it, how many, and how many the one below
    holds; None where it has no end.
    """
    if buckets is None:
        return None
    above = 0.0
    edges = (0.0, *buckets.edges)
    for place in reversed(range(len(buckets.counts))):
        above += buckets.counts[place]
        if above >= least:
            below = buckets.counts[place - 1] if place else 0.0
            return (edges[place], edges[place + 1], above, below) if edges[place + 1] < float("inf") else None
    return None


def _long_bucket(gaps: Buckets | None) -> tuple[float, float] | None:
    """Edges of the bucket that holds most of the long gaps; None where many are longer still: then full steps are."""
    if gaps is None or gaps.total is None or gaps.count <= 0:
        return None
    edges, least = (0.0, *gaps.edges), LONG * gaps.total / gaps.count
    long = [(count, place) for place, count in enumerate(gaps.counts) if edges[place] >= least]
    count, place = max(long, default=(0.0, 0))
    if sum(gaps.counts[place + 1 :]) > LONGER * count:
        return None
    return (edges[place], edges[place + 1]) if count >= LEAST_GAPS and edges[place + 1] < float("inf") else None
