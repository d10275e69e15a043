"""A stub of an engine for routers: answers chat requests, streamed or not, and fails every so many of them with a 500.

Usage: stub_engine.py PORT [FAIL_EVERY]
"""

import asyncio
import itertools
import json
import sys

from aiohttp import web

PROMPT_TOKENS = 20
PACE_SECONDS = 0.002


def application(fail_every: int) -> web.Application:
    numbers = itertools.count(1)

    async def chat(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if fail_every and next(numbers) % fail_every == 0:
            return web.json_response({"error": {"message": "as asked"}}, status=500)
        tokens = int(body.get("max_tokens") or body.get("max_completion_tokens") or 1)
        usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens, "total_tokens": PROMPT_TOKENS + tokens}
        if not body.get("stream"):
            message = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "length"}
            transfer = {
                "do_remote_prefill": True,
                "remote_block_ids": [1],
                "remote_host": "127.0.0.1",
                "remote_port": 1,
            }
            answer = {"id": "1", "object": "chat.completion", "choices": [message], "usage": usage}
            return web.json_response({**answer, "kv_transfer_params": transfer})
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        for _ in range(tokens):
            await stream.write(_event({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}))
            await asyncio.sleep(PACE_SECONDS)
        await stream.write(_event({"choices": [], "usage": usage}))
        await stream.write(b"data: [DONE]\n\n")
        return stream

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "tiny", "object": "model"}]})

    async def empty(_: web.Request) -> web.Response:
        return web.Response(text="")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/health", empty)
    app.router.add_get("/metrics", empty)
    return app


def _event(body: dict[str, object]) -> bytes:
    return f"data: {json.dumps({'id': '1', 'object': 'chat.completion.chunk', 'model': 'tiny', **body})}\n\n".encode()


if __name__ == "__main__":
    web.run_app(application(int((sys.argv[2:] or ["0"])[0])), host="127.0.0.1", port=int(sys.argv[1]), print=None)
