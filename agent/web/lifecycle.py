"""/-/healthy, /-/ready and /-/reload: for Kubernetes, systemd and whoever edits the config."""

from http import HTTPStatus

from aiohttp import web

from agent.view import View
from agent.web.actions import Actions
from agent.web.guard import refusal
from agent.web.verdict import has_ticked


def routes(view: View, actions: Actions) -> list[web.RouteDef]:
    """The three of them."""

    async def healthy(_request: web.Request) -> web.Response:
        return web.Response(text="The agent is alive.\n")

    async def ready(request: web.Request) -> web.Response:
        if has_ticked(view.snapshot()):
            return web.Response(text="The agent is ready.\n")
        return refusal(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "nothing has been evaluated yet",
            request.path,
            "Ask again in seconds.",
        )

    async def reload(_request: web.Request) -> web.Response:
        errors = await actions.reload()
        if errors:
            return web.json_response(
                {"error": "the new config has errors; the old one stays in force", "errors": errors},
                status=HTTPStatus.UNPROCESSABLE_ENTITY,
            )
        return web.json_response({"reloaded": True})

    return [
        web.get("/-/healthy", healthy),
        web.get("/-/ready", ready),
        web.post("/-/reload", reload),
    ]
