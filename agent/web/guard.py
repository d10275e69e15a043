"""What every answer carries and every request must pass: security headers, JSON errors, no orders from other sites."""

import json
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp import web

from agent.web.paths import PATHS

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SECURITY_HEADERS = {
    # Everything comes from this server, nothing inline is run, nobody may frame the page.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def refusal(status: HTTPStatus, what: str, where: str, fix: str) -> web.Response:
    """An error as JSON: `{"error": sentence, "what", "where", "fix"}`."""
    body = {"error": f"{where}: {what}. {fix}", "what": what, "where": where, "fix": fix}
    return web.json_response(body, status=status)


@web.middleware
async def json_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn aiohttp's own errors and our bugs into JSON; a bug is logged, and its text stays in the log."""
    try:
        return await handler(request)
    except web.HTTPRedirection:
        raise
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        refused = refusal(
            HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not possible", request.path, f"Use {allowed}."
        )
        refused.headers["Allow"] = allowed
        return refused
    except web.HTTPException as error:
        status = HTTPStatus(error.status)
        return refusal(status, status.phrase, request.path, f"Known: {', '.join(PATHS)}.")
    except Exception:
        log.exception("request failed path=%s", request.path)
        return refusal(
            HTTPStatus.INTERNAL_SERVER_ERROR, "the agent failed to answer", request.path, "Its log says why."
        )


@web.middleware
async def same_site_orders(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse that another web site makes a visitor's browser start a canary or a reload.

    Browsers say where a request comes from; Prometheus, curl and scripts say nothing and pass.
    """
    is_order = request.method not in ("GET", "HEAD", "OPTIONS") or request.path == "/probe"
    if is_order and _comes_from_elsewhere(request):
        return refusal(
            HTTPStatus.FORBIDDEN, "another web site asked for it", request.path, "Open the agent's own page instead."
        )
    return await handler(request)


async def add_security_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """On every answer, errors and files included; signal handler for `on_response_prepare`."""
    response.headers.update(SECURITY_HEADERS)
    response.headers.setdefault("Cache-Control", "no-cache")


def dumps(value: object) -> str:
    """JSON without NaN and infinity, which are no JSON."""
    return json.dumps(value, allow_nan=False)


def _comes_from_elsewhere(request: web.Request) -> bool:
    if request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.host
