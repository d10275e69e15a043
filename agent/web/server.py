"""The agent's HTTP server: the page, /metrics, the JSON interface, /probe and the lifecycle addresses."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from agent.view import View
from agent.web import api, blackbox, history, lifecycle, paging
from agent.web.actions import Actions
from agent.web.guard import add_security_headers, json_errors, same_site_orders

log = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
MOST_REQUEST_BYTES = 16_384  # no address takes a body


def make_app(
    view: View,
    registry: CollectorRegistry,
    actions: Actions,
    *,
    note: str | None = None,
    alertmanagers: Sequence[str] | None = None,
    probe_any_address: bool = False,
) -> web.Application:
    """The whole server as an aiohttp application; the caller binds it to an address.

    `note` stands on top of the page ("Demo: simulated engines, time runs 20x"). `alertmanagers` are the configured
    addresses: with none of them the verdict says that nobody can be paged; None where nobody is to be.
    `probe_any_address` lets /probe aim at addresses that are not configured: only for a server that nobody else can
    reach.
    """
    app = web.Application(middlewares=[json_errors, same_site_orders], client_max_size=MOST_REQUEST_BYTES)
    past, pager = history.History(), paging.Paging(registry, alertmanagers)
    app.add_routes(
        [
            web.get("/", _page),
            web.get("/metrics", make_aiohttp_handler(registry)),
            *api.routes(view, past, pager, note),
            *blackbox.routes(actions, any_address=probe_any_address),
            *lifecycle.routes(view, actions),
            web.static("/static", STATIC),
        ]
    )
    app.on_response_prepare.append(add_security_headers)
    app.cleanup_ctx.append(_remembering(past, pager, view))
    return app


async def _page(_request: web.Request) -> web.FileResponse:
    return web.FileResponse(STATIC / "index.html")


def _remembering(
    past: history.History, pager: paging.Paging, view: View
) -> Callable[[web.Application], AsyncIterator[None]]:
    """Keep the sparklines' history, and when deliveries went out, while the server runs: only the page needs them."""

    async def observe_again_and_again() -> None:
        while True:
            try:
                past.observe(view)
                pager.observe(view.now_seconds())
            except Exception:
                log.exception("page history stopped")
                return
            await asyncio.sleep(history.INTERVAL_SECONDS)

    async def lifetime(_app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(observe_again_and_again())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    return lifetime
