"""Which model a server serves, when nobody said."""

import json
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from probes.canary.exchange import Request, exchange
from probes.canary.failure import failure_of_body
from probes.canary.timers import Timers
from probes.canary.transport import Transport
from probes.clock import Clock
from probes.stream import StreamFault

_MAX_BODY_BYTES: Final = 4 << 20  # ten thousand models take about 2 MB
_MAX_NAME_CHARACTERS: Final = 512


@dataclass(slots=True)
class _Body:
    content: bytearray = field(default_factory=bytearray)
    content_type: str = ""

    async def read(self, response: aiohttp.ClientResponse, _: Timers) -> None:
        self.content_type = response.content_type
        while len(self.content) < _MAX_BODY_BYTES:
            piece = await response.content.readany()
            if not piece:
                return
            self.content += piece


async def first_model(request: Request, transport: Transport, clock: Clock) -> tuple[str | None, StreamFault]:
    """The first model of /v1/models, or None and why not. The fault means nothing when there is a model."""
    body = _Body()
    done = await exchange(request, transport, clock, body.read)
    if done.fault is not None:
        return None, done.fault
    try:
        name = json.loads(body.content)["data"][0]["id"]
    except (ValueError, LookupError, TypeError, RecursionError):
        name = None
    if isinstance(name, str) and 0 < len(name) <= _MAX_NAME_CHARACTERS and name.isprintable():
        return name, StreamFault("ok", "")
    if body.content.lstrip().startswith(b"{"):
        return None, StreamFault("no_model", "lists no model")
    return None, failure_of_body(body.content_type, bytes(body.content))
