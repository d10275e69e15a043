"""What a canary noticed, in words: the flags of a probe result."""

FLAGS = {
    "buffered_stream": "the whole answer came at once: something in between buffers, so there is no TPOT and no ITL",
    "client_lag": "this machine was busy: the times may be too long by the timing error",
    "coalesced": "some tokens arrived together in one piece; they count as one arrival, and TPOT is still right",
    "compressed": "the answer came compressed, which delays tokens",
    "content_type_mismatch": "the answer does not call itself an event stream",
    "dialect_learnt": "the server refused an option at first; it was asked again without it",
    "done_missing": "the stream ended without [DONE]",
    "lingering": "the server kept the stream open after its end",
    "multi_token_events": "some events hold several tokens, as with speculative decoding",
    "token_weights_unknown": "the server does not say how many tokens an event holds, so there is no TPOT and no ITL",
    "usage_inconsistent": "the server's token counts contradict its events, so they are not used",
    "usage_missing": "the server does not count tokens, so there is no TPOT and no ITL",
}


def flag_words(flag: str) -> str:
    """The sentence for a flag, with the flag itself; the flag alone where there is none."""
    return f"{flag}: {FLAGS[flag]}" if flag in FLAGS else flag
