"""Prompts of a wanted length that no cache has seen: plain words in an order of their own."""

import base64
import random
import secrets
from typing import Final

# Short, common words: one token each in the vocabularies of today's models, near enough.
_WORDS: Final = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work number night point home water room mother area money "
    "story fact month lot right study book eye job word business issue side kind head house service friend father "
    "power hour game line end member law car city name team minute idea body back parent face level office door"
)


def fresh_salt() -> str:
    """A salt nobody else has: 16 characters, none of which vLLM's `cache_salt` refuses."""
    return "slo-" + base64.b32encode(secrets.token_bytes(8)).decode().lower().rstrip("=")[:12]


def filler(tokens: int, salt: str) -> str:
    """About so many tokens of words; another salt gives other words from the first one on.

    So the prompt is its own even where a server does not know `cache_salt`.
    """
    dice = random.Random(salt)  # noqa: S311 - an order of words, no secret
    return f"{salt}: " + " ".join(dice.choices(_WORDS.split(), k=max(1, tokens)))
