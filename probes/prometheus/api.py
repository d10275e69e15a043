"""Prometheus' HTTP API: which series there are, and their samples, as they were scraped or one a step.

Source: Prometheus, documentation, "HTTP API"; Thanos, Mimir and VictoriaMetrics answer the same.
"""

import asyncio
import json
import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp

from probes.canary.redaction import redact

TOO_MUCH_WORDS = ("too many samples", "exceeded maximum resolution", "too many points", "limit", "timed out", "timeout")
NO_RESULT = "The answer is none of Prometheus' API: its result cannot be read."
MAX_BYTES = 512_000_000  # of one answer; we ask for pieces far smaller


class PrometheusError(ValueError):
    """A server that cannot be used; the text says which, what it said, and the mend."""


class TooMuchError(PrometheusError):
    """It would not answer so much at once; a shorter stretch may do."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where the server is, and who we are to it. `url` is the base, without /api/v1."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 60.0
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its labels with `__name__`, and (unix seconds, value) in order. NaN and infinities are left out."""

    labels: Mapping[str, str]
    samples: tuple[tuple[float, float], ...]


class PrometheusApi:
    """Asks one server, one question at a time."""

    def __init__(self, access: Access, session: aiohttp.ClientSession) -> None:
        self.access = access
        self._session = session
        self._tls = _tls(access)

    @classmethod
    def at(cls, access: Access, session: aiohttp.ClientSession) -> Self:
        """The API at this address. Raises PrometheusError where that is none, or its certificates cannot be read."""
        parts = urlsplit(access.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PrometheusError(f"{access.url!r} is no address of a Prometheus. Write http://prometheus:9090.")
        if parts.username or parts.password:
            raise PrometheusError(
                "No user or password in an address: put the secret into a file: prometheus.bearer_token_file."
            )
        return cls(access, session)

    async def labels(self, selector: str, start_seconds: float, end_seconds: float) -> list[dict[str, str]]:
        """The label sets of the series that had samples in this stretch."""
        form = {"match[]": selector, "start": _stamp(start_seconds), "end": _stamp(end_seconds)}
        found = await self._ask("series", form)
        if not isinstance(found, list):
            raise PrometheusError(NO_RESULT)
        return [_labels(one) for one in found]

    async def scraped(self, selector: str, start_seconds: float, end_seconds: float) -> list[Series]:
        """Samples as they were scraped, with their own times, in (start_seconds, end_seconds]."""
        milliseconds = math.ceil((end_seconds - start_seconds) * 1000)
        form = {"query": f"{selector}[{milliseconds}ms]", "time": _stamp(end_seconds)}
        found = _series(await self._ask("query", form))
        return [
            Series(one.labels, tuple(s for s in one.samples if start_seconds < s[0] <= end_seconds)) for one in found
        ]

    async def sampled(
        self, expression: str, start_seconds: float, end_seconds: float, step_seconds: float
    ) -> list[Series]:
        """The expression's values at start, start + step, ... up to end."""
        form = {
            "query": expression,
            "start": _stamp(start_seconds),
            "end": _stamp(end_seconds),
            "step": f"{step_seconds:g}",
        }
        return _series(await self._ask("query_range", form))

    async def now(self, expression: str, at_seconds: float) -> list[Series]:
        """The expression's value at one moment."""
        found = await self._ask("query", {"query": expression, "time": _stamp(at_seconds)})
        try:
            parts = [{"metric": one["metric"], "values": [one["value"]]} for one in found["result"]]
        except (KeyError, TypeError):
            raise PrometheusError(NO_RESULT) from None
        return _series({"result": parts})

    async def _ask(self, what: str, form: Mapping[str, str]) -> Any:
        """The answer's data. Raises TooMuchError or PrometheusError."""
        where = f"{self.access.url.rstrip('/')}/api/v1/{what}"
        try:
            async with (
                asyncio.timeout(self.access.timeout_seconds),
                self._session.post(
                    where, data=form, headers=self.access.headers, allow_redirects=False, ssl=self._tls
                ) as answer,
            ):
                body = await answer.content.read(MAX_BYTES)
                while len(body) < MAX_BYTES and (more := await answer.content.read(MAX_BYTES - len(body))):
                    body += more
                status = answer.status
        except TimeoutError:
            raise TooMuchError(f"{where}: no answer within {self.access.timeout_seconds:g} s.") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise PrometheusError(f"{where}: {_transport_words(error)}") from None
        return self._data(where, status, body)

    def _data(self, where: str, status: int, body: bytes) -> Any:
        try:
            document = json.loads(body)
            if document["status"] == "success":
                return document["data"]
            said = str(document.get("error", ""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise PrometheusError(f"{where}: {_status_words(status)}") from None
        words = redact(said, self.access.headers.values())
        kind = TooMuchError if status in (400, 413, 422, 503) and _is_too_much(said) else PrometheusError
        raise kind(f"{where}: HTTP {status}: {words}")


def _tls(access: Access) -> ssl.SSLContext | bool:
    if access.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=access.ca_file)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or "it is no PEM file"
        raise PrometheusError(f"{access.ca_file}: cannot be read: {reason}.") from None


def _series(data: Any) -> list[Series]:
    try:
        return [
            Series(
                _labels(one["metric"]),
                tuple((float(at), number) for at, text in one["values"] if math.isfinite(number := float(text))),
            )
            for one in data["result"]
            if "values" in one  # native histograms have others
        ]
    except (KeyError, TypeError, ValueError):
        raise PrometheusError(NO_RESULT) from None


def _labels(found: Any) -> dict[str, str]:
    """A label set. Raises PrometheusError where it is none."""
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise PrometheusError(NO_RESULT)
    return found


def _stamp(at_seconds: float) -> str:
    return f"{at_seconds:.3f}"


def _is_too_much(said: str) -> bool:
    return any(words in said.lower() for words in TOO_MUCH_WORDS)


def _transport_words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the name cannot be resolved."
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted. Name its authority in prometheus.ca_file."
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.strerror or 'no connection'}. Is it running there?"
    return f"the connection failed ({type(error).__name__})."


def _status_words(status: int) -> str:
    if status in (401, 403):
        return f"HTTP {status}: it wants to know who we are. Name its file in prometheus.bearer_token_file."
    if status == 404:
        return "HTTP 404: no Prometheus API there. Is a path missing, such as /prometheus or /select/0/prometheus?"
    if 300 <= status < 400:
        return f"HTTP {status}: a redirect is not followed. Write the address it leads to."
    return f"HTTP {status}, and no answer of Prometheus' API. Is it a Prometheus?"
