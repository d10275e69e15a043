"""The HTTP face of one replica: OpenAI routes, health, version, metrics."""

import asyncio
import json
from typing import Any
from uuid import uuid4

from aiohttp import web

from agent.simulator.ask import Ask
from agent.simulator.catalogue import VERSION
from agent.simulator.fleet import Call
from agent.simulator.openai_chunks import Answer, error_body
from agent.simulator.prompt_text import block_hashes, prompt_of, token_count
from agent.simulator.real_time import RealTime
from agent.simulator.replica import Replica
from agent.simulator.seeds import stream

METRICS_CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"  # vLLM 0.32 with prometheus_client 0.26
CLIENT_GONE = 499  # nobody reads it; an exception would become a traceback in the log
STOP_MEAN_TOKENS = 160  # a model that may stop by itself does so after about as many tokens as chat answers have
COMPLETION_DEFAULT_TOKENS = 16  # OpenAI's default for /v1/completions


class OpenAiApi:
    """Routes of the replica at one place; the replica may come and go, the port stays its own."""

    def __init__(self, real_time: RealTime, index: int) -> None:
        self._real_time = real_time
        self._index = index

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/chat/completions", self.complete),
            web.post("/v1/completions", self.complete),
            web.get("/v1/models", self.models),
            web.get("/health", self.health),
            web.get("/version", self.version),
            web.get("/metrics", self.metrics),
        ]

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answer a completion, as a stream where it is asked for."""
        try:
            return await self._complete(request)
        except ConnectionError:
            return web.Response(status=CLIENT_GONE)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        arrived_at_seconds = self._real_time.clock.now_seconds()
        replica = self._replica()
        try:
            body = await request.json()
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            return _error("Invalid JSON", "BadRequestError", 400)
        if not isinstance(body, dict) or not isinstance(body.get("stream_options") or {}, dict):
            return _error("The body, or its stream_options, is no JSON object", "BadRequestError", 400)
        prompt = prompt_of(body)
        problem = _problem(body, prompt, replica)
        if problem is not None or prompt is None:
            message, kind = problem or ("Either a prompt or messages are required.", "BadRequestError")
            status = 404 if kind == "NotFoundError" else 400
            replica.http.count(request.path, status, 0.0, arrived_at_seconds)
            return _error(message, kind, status)
        hashes = block_hashes(prompt, replica.engine.config.block_tokens, str(body.get("cache_salt") or ""))
        seed = hashes[-1] if hashes else sum(str(prompt).encode())
        is_chat = request.path.endswith("chat/completions")
        name = request.headers.get("X-Request-Id") or body.get("request_id") or uuid4().hex
        answer = Answer(
            f"{'chatcmpl' if is_chat else 'cmpl'}-{name}",
            replica.engine.config.model,
            int(arrived_at_seconds),
            is_chat,
            token_count(prompt),
            seed % 10_007,
        )
        ask = _ask(body, answer, hashes, replica, request.path)
        call, woken = self._real_time.submit(replica, ask, arrived_at_seconds)
        try:
            if body.get("stream"):
                return await self._stream(request, body, answer, call, woken)
            await self._until_ended(call, woken)
        except (asyncio.CancelledError, ConnectionError):
            self._real_time.abort(call)
            raise
        finally:
            now_seconds = self._real_time.clock.now_seconds()
            if replica.role == "aggregated":
                replica.http.count(request.path, 200, now_seconds - arrived_at_seconds, now_seconds)
        sequence = call.sequence
        if sequence is None or sequence.state == "failed":
            return _error("EngineCore encountered an issue", "InternalServerError", 500)
        return web.json_response(answer.body(sequence.generated_tokens, ask.finish_reason, sequence.cached_tokens))

    async def models(self, request: web.Request) -> web.Response:  # noqa: ARG002 - aiohttp's signature
        config = self._replica().engine.config
        card = {"id": config.model, "object": "model", "created": int(self._replica().created_at_seconds)}
        card |= {"owned_by": "vllm", "root": config.model, "parent": None, "max_model_len": config.max_model_len}
        return web.json_response({"object": "list", "data": [card]})

    async def health(self, request: web.Request) -> web.Response:  # noqa: ARG002 - aiohttp's signature
        self._replica()
        return web.Response()

    async def version(self, request: web.Request) -> web.Response:  # noqa: ARG002 - aiohttp's signature
        return web.json_response({"version": VERSION})

    async def metrics(self, request: web.Request) -> web.Response:  # noqa: ARG002 - aiohttp's signature
        replica = self._replica()
        self._real_time.catch_up()
        return web.Response(body=replica.page.text().encode(), headers={"Content-Type": METRICS_CONTENT_TYPE})

    def _replica(self) -> Replica:
        replica = self._real_time.replica(self._index)
        if replica is None:
            raise web.HTTPServiceUnavailable(text="no engine here")
        return replica

    async def _stream(
        self, request: web.Request, body: dict[str, Any], answer: Answer, call: Call, woken: asyncio.Event
    ) -> web.StreamResponse:
        options = body.get("stream_options") or {}
        each = bool(options.get("include_usage")) and bool(options.get("continuous_usage_stats"))
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        sent, total = 0, call.ask.output_tokens
        while True:
            ready = call.tokens
            chunks = [answer.role_chunk(usage=each)] if answer.is_chat and sent == 0 and ready else []
            for index in range(sent, ready):
                reason = call.ask.finish_reason if index + 1 == total else None
                chunks.append(answer.token_chunk(index, reason, usage=each))
            if chunks:
                await response.write(b"".join(chunks))
            sent = ready
            if call.has_ended:
                break
            woken.clear()
            await woken.wait()
        if call.sequence is None or call.sequence.state == "failed":
            failure = error_body("EngineCore encountered an issue", "InternalServerError", 500)
            await response.write(b"data: " + json.dumps(failure).encode() + b"\n\n")
        elif options.get("include_usage"):
            await response.write(answer.usage_chunk(sent, call.sequence.cached_tokens))
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    async def _until_ended(self, call: Call, woken: asyncio.Event) -> None:
        while not call.has_ended:
            woken.clear()
            await woken.wait()


def _problem(body: dict[str, Any], prompt: list[int] | str | None, replica: Replica) -> tuple[str, str] | None:
    """Why a request with a prompt cannot be served: message and error type; None when it can."""
    config = replica.engine.config
    if body.get("model") not in (None, "", config.model):
        return f"The model `{body['model']}` does not exist.", "NotFoundError"
    if prompt is None:
        return None
    if body.get("priority") and not config.by_priority:
        return f"Got priority {body['priority']} but Priority scheduling is not enabled.", "BadRequestError"
    limit = _limit(body)
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        return f"max_tokens must be at least 1, got {limit}.", "BadRequestError"
    if token_count(prompt) + (limit or 1) > config.max_model_len:
        asked = f"{token_count(prompt)} input tokens and asks for {limit or 1} output tokens"
        message = f"This model's maximum context length is {config.max_model_len} tokens. Your request has {asked}."
        return message, "BadRequestError"
    return None


def _ask(body: dict[str, Any], answer: Answer, hashes: tuple[int, ...], replica: Replica, path: str) -> Ask:
    room = replica.engine.config.max_model_len - answer.prompt_tokens
    limit = _limit(body) or (room if answer.is_chat else COMPLETION_DEFAULT_TOKENS)
    output, reason = limit, "length"
    if not body.get("ignore_eos"):
        would_stop = 1 + int(stream(answer.text_seed, "stop").expovariate(1 / STOP_MEAN_TOKENS))
        wished = max(would_stop, int(body.get("min_tokens") or 0))
        output, reason = (wished, "stop") if wished < limit else (limit, "length")
    return Ask(
        answer.id,
        answer.prompt_tokens,
        output,
        hashes,
        priority=int(body.get("priority") or 0),
        finish_reason="stop" if reason == "stop" else "length",
        max_tokens=limit,
        endpoint=path,
    )


def _limit(body: dict[str, Any]) -> Any:
    limit = body.get("max_completion_tokens")
    return body.get("max_tokens") if limit is None else limit


def _error(message: str, kind: str, code: int) -> web.Response:
    return web.json_response(error_body(message, kind, code), status=code)
