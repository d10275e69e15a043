"""The span receiver as one part: both listeners, the queue behind them, and the way on to the user's collector."""

from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp

from probes.spans.counts import SpanCounts
from probes.spans.forward import ForwardTarget, SpanForwarder
from probes.spans.http_receiver import HttpReceiver
from probes.spans.intake import Deliver, SpanIntake
from probes.spans.limits import SpanLimits


class _Part(Protocol):
    async def stop(self) -> None: ...


class _Listener(_Part, Protocol):
    async def start(self, host: str, port: int) -> int: ...


class ListenError(OSError):
    """An address we cannot listen on; the text says which, and what to do."""


@dataclass(slots=True)
class SpanReceiver:
    """Receives vLLM's request spans and gives them to `deliver`, on the event loop, repeated ones left out.

    `grpc` and `http` are "host:port" ("[::1]:4317" for IPv6; port 0 takes a free one), None for not at all.
    `forward` needs `session`, which stays the caller's.
    """

    deliver: Deliver
    grpc: str | None = None
    http: str | None = None
    forward: ForwardTarget | None = None
    session: aiohttp.ClientSession | None = None
    limits: SpanLimits = field(default_factory=SpanLimits)
    counts: SpanCounts = field(default_factory=SpanCounts)
    grpc_port: int | None = None
    http_port: int | None = None
    _parts: list[_Part] = field(default_factory=list)

    async def start(self) -> None:
        """Listen. Raises ListenError, with nothing left open, where an address cannot be had."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close the ports, read what was taken, send on what waits: a few seconds at most. Safe to call twice."""
        while self._parts:
            await self._parts.pop().stop()
        self.grpc_port = self.http_port = None

    async def _start(self) -> None:
        forwarder = None
        if self.forward is not None and self.session is not None:
            forwarder = SpanForwarder(self.forward, self.session, self.counts)
            forwarder.start()
            self._parts.append(forwarder)
        intake = SpanIntake(self.deliver, self.counts, self.limits, forwarder)
        intake.start()
        self._parts.append(intake)
        if self.http is not None:
            listener = HttpReceiver(intake, self.counts, self.limits)
            self._parts.append(listener)
            self.http_port = await _listen(listener, "http", self.http)
        if self.grpc is not None:
            from probes.spans.grpc_receiver import GrpcReceiver  # noqa: PLC0415  12 MB that not every agent needs

            calls = GrpcReceiver(intake, self.limits)
            self._parts.append(calls)
            self.grpc_port = await _listen(calls, "grpc", self.grpc)


async def _listen(listener: _Listener, name: str, address: str) -> int:
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None:
        raise ListenError(f'spans.{name} is "{address}"; expected host:port, such as 127.0.0.1:4318.')
    try:
        return await listener.start(host, port)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ListenError(f"spans.{name}: cannot listen on {address}: {reason}. Is the port taken?") from error
