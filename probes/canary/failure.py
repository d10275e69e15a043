"""From what went wrong to its outcome class: exceptions of the client, and answers that are no stream."""

import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final

import aiohttp
from aiohttp import http_exceptions

from probes.canary.transport import TlsFilesError
from probes.stream import StreamFault, error_text

_TLS_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_TLS_HOSTNAMES: Final = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_TOO_LONG: Final = re.compile(r"(?i)context[ _]length|maximum context|max_model_len|too long|longer than the maximum")
_BUSY: Final = re.compile(r"(?i)busy|overload|too many|queue|capacity")
_MAX_RETRY_AFTER_SECONDS: Final = 3600

_BY_STATUS: Final[dict[int, str]] = {
    204: "empty_body",
    401: "auth",
    403: "auth",
    407: "proxy_auth",
    413: "bad_request_size",
    429: "rate_limited",
    502: "gateway_error",  # an engine sends neither 502 nor 504
    504: "gateway_error",
}
_BY_HUNDRED: Final[dict[int, str]] = {3: "redirect", 4: "bad_request", 5: "server_error"}

# An exception (the first that fits), what it means before the head of the answer, and after it.
_BY_EXCEPTION: Final[tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str, str], ...]] = (
    (aiohttp.ClientConnectorDNSError, "dns_error", "dns_error"),
    (aiohttp.InvalidURL, "invalid_url", "invalid_url"),
    (http_exceptions.ContentLengthError, "protocol", "truncated"),
    (http_exceptions.TransferEncodingError, "protocol", "reset_midstream"),
    (http_exceptions.HttpProcessingError, "protocol", "protocol"),
    (aiohttp.ClientResponseError, "protocol", "protocol"),
    (ConnectionRefusedError, "connect_refused", "reset_midstream"),
    ((ConnectionError, aiohttp.ServerDisconnectedError), "connect_reset", "reset_midstream"),
    (TimeoutError, "connect_timeout", "stall_timeout"),
    (OSError, "connect_error", "reset_midstream"),
)


def failure_of_exception(error: BaseException, *, has_head: bool) -> StreamFault:
    """The outcome class of what the HTTP client raised; `has_head` once the head of the answer was read."""
    if isinstance(error, TlsFilesError):
        return StreamFault("tls_files", str(error))
    if isinstance(error, aiohttp.ClientHttpProxyError):  # the answer to CONNECT
        return StreamFault("proxy_auth" if error.status == 407 else "proxy_connect", f"the proxy: HTTP {error.status}")
    if isinstance(error, aiohttp.ClientProxyConnectionError):  # before what caused it, which would be the target's
        return StreamFault("proxy_connect", f"{type(error).__name__}: {error}")
    chain = list(_chain(error))
    said = f"{type(error).__name__}: {error}".replace(" ssl:default", "")  # aiohttp says it of plain http, too
    for one in chain:
        outcome = _by_type(one, has_head=has_head)
        if outcome is not None:
            return StreamFault(outcome, said)
    return StreamFault("reset_midstream" if has_head else "internal_error", said)


def failure_of_answer(status: int, headers: Mapping[str, str], body: bytes) -> StreamFault:
    """The outcome class of an answer other than 200, with the server's own words."""
    content_type = headers.get("Content-Type", "").lower()
    document = _json_of(body)
    words = re.sub(rf"(^|: ){status}: ", r"\1", _words(document) or _text(body), count=1)  # many say it once more
    detail = f"HTTP {status}: {words}".rstrip(": ")
    if status == 429:
        detail += _retry_after(headers.get("Retry-After", ""))
    return StreamFault(_outcome_of_answer(status, content_type, words, is_json=document is not None), detail)


def failure_of_body(content_type: str, body: bytes) -> StreamFault:
    """The outcome class of a 200 whose body is no event stream."""
    if not body.strip():
        return StreamFault("empty_body", "HTTP 200 without a body")
    document = _json_of(body)
    if isinstance(document, dict):
        if document.get("error"):
            return StreamFault("stream_error", error_text(document["error"]))
        if document.get("choices"):
            return StreamFault("not_streaming", "HTTP 200 with the whole answer at once, though a stream was asked for")
    return StreamFault("content_type", f"HTTP 200 {content_type or 'without content type'}: {_text(body)}")


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what it wraps, and what caused it, each once, the deepest first."""
    found: list[BaseException] = []
    queue: list[BaseException | None] = [error]
    while queue:
        one = queue.pop(0)
        if one is None or one in found:
            continue
        found.append(one)
        inner = getattr(one, "os_error", None) or getattr(one, "certificate_error", None)
        queue += [inner if isinstance(inner, BaseException) else None, one.__cause__, one.__context__]
    return reversed(found)


def _by_type(error: BaseException, *, has_head: bool) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code == _TLS_EXPIRED:
            return "tls_expired"
        return "tls_hostname" if error.verify_code in _TLS_HOSTNAMES else "tls_untrusted"
    if isinstance(error, ssl.SSLError):
        return "tls_client_cert" if "CERTIFICATE_REQUIRED" in str(error) else "tls_protocol"
    if isinstance(error, socket.gaierror):
        return "dns_nxdomain" if error.errno == socket.EAI_NONAME else "dns_error"
    for kinds, before_head, after_head in _BY_EXCEPTION:
        if isinstance(error, kinds):
            return after_head if has_head else before_head
    return None


def _outcome_of_answer(status: int, content_type: str, words: str, *, is_json: bool) -> str:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status == 404:
        return "model_not_found" if is_json and re.search(r"(?i)\bmodel\b", words) else "not_found"
    if status == 503 and "html" not in content_type:
        return "overloaded" if _BUSY.search(words) else "unavailable"
    if status == 503:
        return "gateway_error"
    if status // 100 == 4 and _TOO_LONG.search(words):
        return "bad_request_length"
    return _BY_HUNDRED.get(status // 100, "protocol")


def _retry_after(value: str) -> str:
    """What Retry-After asks for, clamped; a date or junk is named, not obeyed: our grid stays as planned."""
    if not value:
        return ""
    if value.isascii() and value.isdigit():
        return f" (retry after {min(int(value[:9]), _MAX_RETRY_AFTER_SECONDS)} s)"
    return f" (retry after {value[:40]})"


def _json_of(body: bytes) -> Any:
    try:
        return json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def _words(document: Any) -> str:
    """What a JSON error says, in the shapes of OpenAI ("error"), FastAPI ("detail") and plain objects."""
    if not isinstance(document, dict):
        return ""
    if document.get("error"):
        return error_text(document["error"])
    return error_text(document)
