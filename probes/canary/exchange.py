"""One timed HTTP exchange: the request, every stamp, and what came of it. Raises nothing but cancellation."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, Final

import aiohttp

from probes.canary.arrival import Arrivals
from probes.canary.failure import failure_of_answer, failure_of_exception
from probes.canary.stamping import on_clock
from probes.canary.task import Route
from probes.canary.timers import Timers
from probes.canary.transport import Transport, on_handshake
from probes.clock import Clock
from probes.stream import StreamFault

KEPT_BODY_BYTES: Final = 64 << 10
LARGE_BODY_BYTES: Final = 256 << 10
_NO_TIMEOUTS: Final = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)

BodyReader = Callable[[aiohttp.ClientResponse, Timers], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent. `body` None is a GET. Timeouts are clock seconds, the end is a time of the event loop."""

    url: str
    headers: Mapping[str, str]
    body: bytes | None
    connect_timeout_seconds: float
    first_token_timeout_seconds: float
    ends_at_loop_seconds: float
    route: Route = field(default_factory=Route)
    arrivals: Arrivals = field(default_factory=Arrivals)


@dataclass(slots=True)
class Exchange:
    """The stamps (monotonic clock seconds, absent until it happened) and the end of one exchange.

    `fault` is why there is no good answer. The request may have been sent so much later than its stamp.
    """

    clock: Clock
    stamps: dict[str, float] = field(default_factory=dict)
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    fault: StreamFault | None = None
    sent_error_real_seconds: float = 0.0
    kept_body: bytearray = field(default_factory=bytearray)

    def stamp(self, name: str) -> None:
        """It happens now."""
        self.stamps[name] = self.clock.monotonic_seconds()

    def stamp_sent(self, arrivals: Arrivals) -> None:
        """The last of the request was sent while the kernel took it: not before the call, so that no time is too short.
        aiohttp tells only when it was about to be sent.
        """
        if arrivals.sent_between_ns is None:
            return
        (begun, off), (ended, _) = (on_clock(self.clock, at_ns, perf_counter_ns) for at_ns in arrivals.sent_between_ns)
        self.stamps["sent"] = begun
        self.sent_error_real_seconds = self.clock.real_seconds(ended - begun) + off

    def between(self, first: str, last: str) -> float | None:
        """Seconds from one stamp to another; None when either is missing."""
        if first not in self.stamps or last not in self.stamps:
            return None
        return self.stamps[last] - self.stamps[first]

    def phases(self) -> dict[str, float | None]:
        """dns, connect (TCP), tls, headers (request sent to head read), seconds; None for a phase that was not."""
        tcp_end = "tls_start" if "tls_start" in self.stamps else "connected"
        return {
            "dns": self.between("dns_start", "dns_end"),
            "connect": self.between("connect_start", tcp_end),
            "tls": self.between("tls_start", "connected"),
            "headers": self.between("sent", "head"),
        }


async def exchange(
    request: Request,
    transport: Transport,
    clock: Clock,
    read_body: BodyReader,
) -> Exchange:
    """Send it over a fresh connection and have a 200's body read; every other answer is kept and classed.

    `read_body` may raise what aiohttp raises.
    """
    done = Exchange(clock)
    scope = asyncio.timeout(None)
    timers = Timers(scope, clock, request.ends_at_loop_seconds)

    def tell_sent() -> None:
        done.stamp("sent")
        timers.begin("head_timeout", request.first_token_timeout_seconds)

    def tell_handshake() -> None:
        done.stamp("tls_start")
        timers.rename("tls_timeout")

    on_handshake(tell_handshake)
    traces = _traces(done, timers, request, tell_sent)
    try:
        async with scope:
            timers.begin("connect_timeout", request.connect_timeout_seconds)
            await _send(done, request, transport.connector(request.route, request.arrivals), traces, timers, read_body)
    except TimeoutError as error:
        done.fault = (
            StreamFault(timers.outcome, "")
            if scope.expired()
            else failure_of_exception(error, has_head=done.status is not None)
        )
    except Exception as error:  # noqa: BLE001 - whatever a server makes the client raise is a finding, not a crash
        done.fault = failure_of_exception(error, has_head=done.status is not None)
    if done.fault is not None and done.fault.outcome == "head_timeout" and _is_unwritten(request):
        done.fault = StreamFault("write_timeout", f"{request.arrivals.written_bytes} bytes of the request were taken")
    if done.status is not None and done.status != 200:
        done.fault = failure_of_answer(done.status, done.headers, bytes(done.kept_body))
    return done


async def _send(
    done: Exchange,
    request: Request,
    connector: aiohttp.TCPConnector,
    traces: aiohttp.TraceConfig,
    timers: Timers,
    read_body: BodyReader,
) -> None:
    method = "GET" if request.body is None else "POST"
    key, is_tls = request.route.proxy_headers, request.url.startswith("https:")
    async with (
        aiohttp.ClientSession(
            connector=connector,
            timeout=_NO_TIMEOUTS,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            trace_configs=[traces],
        ) as session,
        session.request(
            method,
            request.url,
            headers={**request.headers, **({} if is_tls else key)},
            data=_payload(request.body),
            allow_redirects=False,
            proxy=request.route.proxy_url,
            proxy_headers=key if is_tls else None,
        ) as response,
    ):
        done.stamp("head")
        done.stamp_sent(request.arrivals)
        done.status = response.status
        done.headers = response.headers
        timers.rename("first_token_timeout")
        try:
            await (read_body(response, timers) if response.status == 200 else keep_body(done, response))
        finally:
            response.close()  # what is not read by now is not wanted


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    """A large body goes piece by piece, so that the loop is not away, and the last piece's time is known."""
    return io.BytesIO(body) if body is not None and len(body) > LARGE_BODY_BYTES else body


def _is_unwritten(request: Request) -> bool:
    """Some of the body is still ours: the server does not read. A connection that does not count says nothing."""
    written = request.arrivals.written_bytes
    return request.body is not None and 0 < written < len(request.body)


async def keep_body(done: Exchange, response: aiohttp.ClientResponse) -> None:
    """Keep the first bytes of a body for its words."""
    while len(done.kept_body) < KEPT_BODY_BYTES:
        piece = await response.content.read(KEPT_BODY_BYTES - len(done.kept_body))
        if not piece:
            return
        done.kept_body += piece


def _traces(done: Exchange, timers: Timers, request: Request, tell_sent: Callable[[], None]) -> aiohttp.TraceConfig:
    def stamping(name: str, timer: str | None = None) -> Any:
        async def take(*_: object) -> None:
            done.stamp(name)
            if timer is not None:
                timers.rename(timer)

        return take

    async def connected(*_: object) -> None:
        done.stamp("connected")
        timers.begin("head_timeout", request.first_token_timeout_seconds)

    async def resolved(*_: object) -> None:
        done.stamp("dns_end")
        done.stamp("connect_start")
        timers.rename("connect_timeout")

    async def sent(*_: object) -> None:
        tell_sent()

    traces: aiohttp.TraceConfig = aiohttp.TraceConfig()
    traces.on_connection_create_start.append(stamping("connect_start"))
    traces.on_dns_resolvehost_start.append(stamping("dns_start", "dns_timeout"))
    traces.on_dns_resolvehost_end.append(resolved)
    traces.on_connection_create_end.append(connected)
    # With a body, head and body leave together, at the body; a GET has its head alone.
    (traces.on_request_headers_sent if request.body is None else traces.on_request_chunk_sent).append(sent)
    return traces
