"""What a canary's connection is made of: certificates it trusts and how it finds addresses."""

import functools
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver

_on_handshake: ContextVar[Callable[[], None] | None] = ContextVar("on_handshake", default=None)


class StampingContext(ssl.SSLContext):
    """A TLS client context that says when a handshake begins; aiohttp's traces do not tell TCP from TLS."""

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Called by asyncio once TCP is up, in the context of the task that connects."""
        tell = _on_handshake.get()
        if tell is not None:
            tell()
        return super().wrap_bio(*arguments, **options)


def on_handshake(tell: Callable[[], None]) -> None:
    """Have `tell` called at the start of the TLS handshakes of the current task."""
    _on_handshake.set(tell)


@functools.cache
def tls_context(ca_pem: str | None = None) -> ssl.SSLContext:
    """Verify against the system's authorities, or against these alone (PEM). Loading them takes some 20 ms: once."""
    context = StampingContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_pem is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=ca_pem)
    return context


@dataclass(frozen=True, slots=True)
class Transport:
    """Shared by all probes of a process; `resolver` None is the system's, in a thread, without a cache."""

    tls: ssl.SSLContext = field(default_factory=tls_context)
    resolver: AbstractResolver | None = None

    def connector(self) -> aiohttp.TCPConnector:
        """One fresh connection: the phases of every probe are its own, and no idle one can be stale."""
        return aiohttp.TCPConnector(
            ssl=self.tls,
            resolver=self.resolver or aiohttp.ThreadedResolver(),
            use_dns_cache=False,
            force_close=True,
            limit=1,
        )
