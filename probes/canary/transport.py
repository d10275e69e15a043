"""What a canary's connection is made of: certificates it trusts and how it finds addresses."""

import functools
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver

from probes.canary.arrival import Arrivals
from probes.canary.task import Route

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


class TlsFilesError(Exception):
    """Our own certificate files cannot be read, or do not fit together."""


def tls_of(route: Route) -> ssl.SSLContext | None:
    """The context of a route with certificates of its own, else None; made anew when one of its files changes.

    Raises TlsFilesError when they cannot be used.
    """
    names = (route.ca_file, route.client_cert_file, route.client_key_file)
    if not any(names):
        return None
    try:
        return _tls_of_files(names, tuple(Path(name).stat().st_mtime_ns if name else 0 for name in names))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise TlsFilesError(f"{type(error).__name__}: {error.args[-1] if error.args else ''}") from None


@functools.lru_cache(maxsize=64)
def _tls_of_files(names: tuple[str | None, ...], _changed_at: tuple[int, ...]) -> ssl.SSLContext:
    ca_file, cert_file, key_file = names
    context = StampingContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_file is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(ca_file)
    if cert_file is not None:
        context.load_cert_chain(cert_file, key_file, password="")
    return context


@dataclass(frozen=True, slots=True)
class Transport:
    """Shared by all probes of a process; `resolver` None is the system's, in a thread, without a cache."""

    tls: ssl.SSLContext = field(default_factory=tls_context)
    resolver: AbstractResolver | None = None
    kernel_stamps: bool = True  # where the kernel can

    def connector(self, route: Route, arrivals: Arrivals) -> aiohttp.TCPConnector:
        """One fresh connection: the phases of every probe are its own, and no idle one can be stale.

        Raises TlsFilesError when the route's certificates cannot be used.
        """
        return aiohttp.TCPConnector(
            ssl=tls_of(route) or self.tls,
            resolver=self.resolver or aiohttp.ThreadedResolver(),
            use_dns_cache=False,
            force_close=True,
            limit=1,
            socket_factory=arrivals.make_socket if self.kernel_stamps else None,
        )
