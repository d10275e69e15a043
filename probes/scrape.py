"""One look at one metrics page over HTTP: bounded in time and bytes, and never an exception."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import aiohttp
from aiohttp.http_exceptions import ContentEncodingError

from probes.canary.redaction import redact
from probes.canary.task import Route
from probes.canary.transport import TlsFilesError, tls_of
from probes.clock import Clock
from probes.page import System, SystemPage
from probes.sample import PageWarning, Reading

LARGE_PAGE_BYTES = 500_000  # real pages are 20 to 120 kB and take under a millisecond


@dataclass(frozen=True, slots=True)
class PageTarget:
    """Where a page is, how it is reached and how far we go to get it. Times are seconds of the clock.

    `headers` are all that are sent; of `route` the certificates and the proxy count.
    """

    name: str
    url: str
    system: System
    timeout_seconds: float
    max_bytes: int
    headers: Mapping[str, str]
    route: Route = field(default_factory=Route)


@dataclass(frozen=True, slots=True)
class Scraped:
    """A reading and the page it came from ("" when there was none), for recordings."""

    reading: Reading
    body: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it came, or why there is none: then `outcome` is not "ok" and `text` is empty."""

    outcome: str
    detail: str
    text: str = ""
    is_cut: bool = False


class Scraper:
    """Reads the page of one target again and again."""

    def __init__(self, target: PageTarget, session: aiohttp.ClientSession, clock: Clock) -> None:
        self.target = target
        self._session = session
        self._clock = clock
        self._page = SystemPage(target.system)

    async def scrape(self) -> Scraped:
        """One reading; `outcome` says why where there is none."""
        began = self._clock.monotonic_seconds()
        page = await fetch_page(self._session, self.target, self._clock)
        at_seconds = self._clock.now_seconds()
        took = self._clock.monotonic_seconds() - began
        if page.outcome != "ok":
            failed = Reading(self.target.name, self.target.system, at_seconds, page.outcome, page.detail)
            return Scraped(replace(failed, duration_seconds=took), "")
        reading = replace(await self._read(page.text, at_seconds), duration_seconds=took)
        if page.is_cut:
            cut = PageWarning(
                "page_cut", f"the page is larger than {self.target.max_bytes} bytes; the rest was not read"
            )
            reading = replace(reading, warnings=(*reading.warnings, cut))
        return Scraped(reading, page.text)

    async def _read(self, text: str, at_seconds: float) -> Reading:
        """A huge page is read in a thread, so that nothing else waits for it."""
        if len(text) > LARGE_PAGE_BYTES:
            return await asyncio.to_thread(self._page.read, text, self.target.name, at_seconds)
        return self._page.read(text, self.target.name, at_seconds)


async def fetch_page(session: aiohttp.ClientSession, target: PageTarget, clock: Clock) -> Page:
    """One GET, bounded in time and bytes; whatever goes wrong becomes an outcome."""
    try:
        async with asyncio.timeout(clock.real_seconds(target.timeout_seconds)):
            return await _get(session, target)
    except TimeoutError:
        return Page("timeout", f"no page within {target.timeout_seconds:g} s")
    except (aiohttp.ClientError, TlsFilesError, ValueError, OSError) as error:
        outcome, words = _outcome(error)
        if outcome == "disconnected" and target.url.startswith("https:") and target.route.client_cert_file is None:
            words += "; does it want a client certificate?"  # uvicorn says so with no alert
        return Page(outcome, words)


# The first row whose error it is; the words are ours and never the server's, which may hold a secret.
_OUTCOMES: tuple[tuple[type[Exception], str, str], ...] = (
    (TlsFilesError, "tls_files", "our own certificate files cannot be read, or do not fit together"),
    (aiohttp.ClientProxyConnectionError, "proxy_connect", "the proxy cannot be reached"),
    (aiohttp.ClientConnectorDNSError, "dns_error", "the name cannot be resolved"),
    (aiohttp.ClientConnectorCertificateError, "tls_error", "the certificate is not trusted"),
    (aiohttp.ClientSSLError, "tls_error", "no TLS connection; does this port speak https?"),
    (aiohttp.InvalidURL, "bad_address", "the address is no valid URL"),
    (aiohttp.ClientPayloadError, "truncated", "the page ended before its announced length"),
    (aiohttp.ServerDisconnectedError, "disconnected", "the server closed the connection without an answer"),
    (ConnectionError, "disconnected", "the server closed the connection without an answer"),
    (aiohttp.ClientResponseError, "not_http", "what answers there does not speak HTTP"),
)


def _outcome(error: Exception) -> tuple[str, str]:
    """The closed word for what went wrong, and the words for people."""
    if isinstance(error.__cause__, ContentEncodingError):
        return "bad_encoding", "the page cannot be decompressed"
    if isinstance(error, aiohttp.ClientHttpProxyError):  # the answer to CONNECT
        return _proxy_outcome(error.status)
    if "CERTIFICATE_REQUIRED" in str(error):
        return "tls_client_cert", "the server wants a client certificate; name it in the target's auth"
    if type(error) is aiohttp.ClientConnectorError:
        is_refused = isinstance(error.os_error, ConnectionRefusedError)
        return "connect_refused" if is_refused else "connect_error", error.strerror or "no connection"
    known = next(((outcome, words) for kind, outcome, words in _OUTCOMES if isinstance(error, kind)), None)
    return known or ("protocol_error", f"the look failed ({type(error).__name__})")


def _proxy_outcome(status: int) -> tuple[str, str]:
    if status == 407:
        return "proxy_auth", "HTTP 407: the proxy wants a user and a password; name proxy_auth_file"
    return "proxy_connect", f"the proxy does not connect us: HTTP {status}"


async def _get(session: aiohttp.ClientSession, target: PageTarget) -> Page:
    route, is_tls = target.route, target.url.startswith("https:")
    async with session.get(
        target.url,
        headers={**target.headers, **({} if is_tls else route.proxy_headers)},
        allow_redirects=False,
        ssl=tls_of(route) or True,
        proxy=route.proxy_url,
        proxy_headers=route.proxy_headers if is_tls else None,
    ) as answer:
        if answer.status == 407:
            return Page(*_proxy_outcome(answer.status))
        if answer.status != 200:
            return Page(f"status_{answer.status}", _status_words(answer.status))
        raw, is_cut = await _read_bounded(answer.content, target.max_bytes)
        text = raw.decode("utf-8", errors="replace")
        if "html" in answer.content_type or text.lstrip()[:1] == "<":
            return Page("html", f"a web page, not metrics: {redact(text, (*target.headers.values(), *route.secrets))}")
        has_announced_end = "Content-Length" in answer.headers or "Transfer-Encoding" in answer.headers
    if is_cut or not has_announced_end:
        text = text[: text.rfind("\n") + 1]  # a last line without its end may be half a number
    return Page("ok", "", text, is_cut)


async def _read_bounded(content: aiohttp.StreamReader, max_bytes: int) -> tuple[bytes, bool]:
    """Up to `max_bytes` of the body, and whether there was more."""
    parts, size = [], 0
    async for part in content.iter_any():
        parts.append(part)
        size += len(part)
        if size > max_bytes:
            return b"".join(parts)[:max_bytes], True
    return b"".join(parts), False


def _status_words(status: int) -> str:
    if status in (401, 403):
        return f"HTTP {status}: the server wants a token; name it in the target's auth"
    if status == 404:
        return "HTTP 404: no page there; is metrics_path right?"
    if 300 <= status < 400:
        return f"HTTP {status}: a redirect is not followed; write the address it leads to"
    return f"HTTP {status}"
