"""The figures that only one kind of canary has: the closed set of names in `ProbeResult.figures`."""

from collections.abc import Mapping
from typing import Final

from probes.canary.task import ProbeKind

KIND_FIGURES: Final[Mapping[ProbeKind, Mapping[str, str]]] = {
    "models": {
        "response_seconds": "request sent to the end of the list, seconds",
        "models": "how many models are listed",
    },
    "embedding": {
        "dimension": "numbers in the vector",
        "norm": "its length",
        "cosine": "with the first vector of this text; 1 is the same direction",
    },
    "kv_reuse": {
        "gap_seconds": "from the cold half to the warm one, seconds",
        "cold_ttft_seconds": "TTFT of a prompt that no cache has seen, seconds",
        "warm_ttft_seconds": "TTFT of the same prompt again, seconds",
        "cold_cached_tokens": "prompt tokens that came from a cache in the cold half: 0, or the salt is not kept apart",
        "warm_cached_tokens": "prompt tokens that came from a cache in the warm half, as the server counts",
        "reused_ratio": "those as a share of the prompt without its last token, which is always computed",
        "answers_equal": "1 when both halves said the same; 0 alone is no fault: batching moves numbers",
    },
    "correctness": {
        "answer_right": "1 for the expected word, 0 without it",
        "logprob_mean": "mean log probability of the answer's tokens, nats",
        "logprob_deviation": "its distance from the baseline as a share of what is allowed; above 1 is a strike",
        "strikes": "strikes in a row for this question; the second is the outcome",
    },
    "long_prompt": {"prefill_tokens_per_second": "prompt tokens through TTFT, with the queue and the network in it"},
    "streaming_shape": {
        "token_events": "events that carried tokens",
        "pieces": "how many pieces they came in; one for a stream that somebody buffers",
        "largest_piece_ratio": "the largest piece's share of the events",
        "longest_gap_ratio": "the longest gap's share of the whole stream",
    },
}
