"""One look at one metrics page over HTTP: bounded in time and bytes, and never an exception."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

import aiohttp

from probes.clock import Clock
from probes.page import System, SystemPage
from probes.sample import PageWarning, Reading

HEAD_BYTES = 200  # of a wrong answer, shown to people


@dataclass(frozen=True, slots=True)
class PageTarget:
    """Where a page is and how far we go to get it. Times are seconds of the clock."""

    name: str
    url: str
    system: System
    timeout_seconds: float
    max_bytes: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Scraped:
    """A reading and the page it came from ("" when there was none), for recordings."""

    reading: Reading
    body: str


class Scraper:
    """Reads the page of one target again and again, never twice at once."""

    def __init__(self, target: PageTarget, session: aiohttp.ClientSession, clock: Clock) -> None:
        self.target = target
        self._session = session
        self._clock = clock
        self._page = SystemPage(target.system)

    async def scrape(self) -> Scraped:
        """One reading; `outcome` says why where there is none."""
        began = self._clock.monotonic_seconds()
        try:
            async with asyncio.timeout(self._clock.real_seconds(self.target.timeout_seconds)):
                reading, body = await self._fetch()
        except TimeoutError:
            reading, body = self._failed("timeout", f"no page within {self.target.timeout_seconds:g} s"), ""
        except aiohttp.ClientConnectorDNSError:
            reading, body = self._failed("dns_error", "the name cannot be resolved"), ""
        except aiohttp.ClientConnectorCertificateError:
            reading, body = self._failed("tls_error", "the certificate is not trusted"), ""
        except aiohttp.ClientConnectorError as error:
            outcome = "connect_refused" if isinstance(error.os_error, ConnectionRefusedError) else "connect_error"
            reading, body = self._failed(outcome, error.strerror or "no connection"), ""
        except aiohttp.ClientPayloadError:
            reading, body = self._failed("truncated", "the page ended before its announced length"), ""
        except (aiohttp.ClientError, ValueError, OSError) as error:
            reading, body = self._failed("protocol_error", type(error).__name__), ""
        return Scraped(replace(reading, duration_seconds=self._clock.monotonic_seconds() - began), body)

    async def _fetch(self) -> tuple[Reading, str]:
        async with self._session.get(self.target.url, headers=self.target.headers, allow_redirects=False) as answer:
            raw, is_cut = await _read_bounded(answer.content, self.target.max_bytes)
            at_seconds = self._clock.now_seconds()
            text = raw.decode("utf-8", errors="replace")
            if answer.status != 200:
                return self._failed(f"status_{answer.status}", _status_words(answer.status)), ""
            if "html" in answer.content_type or text.lstrip()[:1] == "<":
                return self._failed("html", f"a web page, not metrics: {_head(text)}"), ""
        if not text.endswith("\n"):
            text = text[: text.rfind("\n") + 1]  # the last line may be half a number
        reading = self._page.read(text, self.target.name, at_seconds)
        if is_cut:
            cut = PageWarning(
                "page_cut", f"the page is larger than {self.target.max_bytes} bytes; the rest was not read"
            )
            reading = replace(reading, warnings=(*reading.warnings, cut))
        return reading, text

    def _failed(self, outcome: str, detail: str) -> Reading:
        return Reading(self.target.name, self.target.system, self._clock.now_seconds(), outcome=outcome, detail=detail)


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
    return f"HTTP {status}"


def _head(text: str) -> str:
    return " ".join(text[:HEAD_BYTES].split())
