"""The client's request id, found again in the server's."""

import re
from typing import Final

CANARY_PREFIX: Final = "slo-canary-"  # what probes/canary sends; a test holds both together
# vLLM 0.32 puts the route before the client's X-Request-Id, and the prompt's index behind it on some routes.
_OF_A_PROMPT: Final = re.compile(r"(?:cmpl|embd)-(.+)-\d+", re.DOTALL)
_ROUTES: Final = ("chatcmpl-", "generate-tokens-")


def client_request_id(request_id: str) -> str:
    """What the client sent as X-Request-Id, or what the server made up in its place."""
    if found := _OF_A_PROMPT.fullmatch(request_id):
        return found[1]
    for route in _ROUTES:
        if request_id.startswith(route):
            return request_id[len(route) :]
    return request_id


def is_canary(client_id: str) -> bool:
    """Whether one of our canaries sent it: those are no users, and their results are counted where they were sent."""
    return client_id.startswith(CANARY_PREFIX)
