"""The chat canary: one short streamed completion at temperature 0, measured as a user would feel it."""

import asyncio
import json
import secrets
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from probes.canary.answer import ChatAnswer
from probes.canary.dialect import Dialects, spoken
from probes.canary.exchange import Exchange, Request, exchange
from probes.canary.figures import StreamFigures, stream_figures
from probes.canary.lag import LagMonitor
from probes.canary.models import first_model
from probes.canary.redaction import redact
from probes.canary.task import ProbeTask, unrun
from probes.canary.transport import Transport
from probes.clock import Clock
from probes.sample import ProbeResult
from probes.stream import ChatStream, StreamFault

REQUEST_ID_PREFIX: Final = "slo-canary-"
# Server's send to our stamp on a quiet loopback, measured: 0.28 ms at p50. Below it no figure can be told.
QUIET_ERROR_REAL_SECONDS: Final = 0.0003
# A sample that the client itself may have moved by more than this, and by more than 5 % of its TTFT, is marked.
LAGGING_ERROR_SECONDS: Final = 0.020
LAGGING_ERROR_RATIO: Final = 0.05


async def run_probe(task: ProbeTask, clock: Clock) -> ProbeResult:
    """One canary now, in this process. Never raises but when cancelled; whatever happens is in the result."""
    return await ChatProber(clock).probe(task)


@dataclass(slots=True)
class ChatProber:
    """Sends chat canaries and remembers what it learnt about each server: its dialect and its model."""

    clock: Clock
    transport: Transport = field(default_factory=Transport)
    dialects: Dialects = field(default_factory=Dialects)
    lag: LagMonitor = field(default_factory=LagMonitor)
    _models: dict[str, str] = field(default_factory=dict)

    async def probe(self, task: ProbeTask) -> ProbeResult:
        """One result for one task: one request, and once more if the server's 400 taught us its dialect."""
        at_seconds = self.clock.now_seconds()
        try:
            return await self._probe(task, at_seconds)
        except Exception as error:  # noqa: BLE001 - exactly one result per probe, whatever happens
            detail = redact(f"{type(error).__name__}: {error}", (task.token, task.prompt))
            return unrun(task, "internal_error", at_seconds, detail)

    async def _probe(self, task: ProbeTask, at_seconds: float) -> ProbeResult:
        ends_at = asyncio.get_running_loop().time() + self.clock.real_seconds(task.total_timeout_seconds)
        base = base_url(task.url)
        if base is None:
            return unrun(task, "invalid_url", at_seconds, "the URL must begin with http:// or https:// and name a host")
        model = task.model or self._models.get(base)
        if model is None:
            request = _request(task, f"{base}/v1/models", None, "", ends_at)
            model, fault = await first_model(request, self.transport, self.clock)
            if model is None:
                detail = redact(f"/v1/models: {fault.detail}", (task.token, task.prompt))
                return unrun(task, fault.outcome, at_seconds, detail)
            self._models[base] = model
        attempt = await self._attempt(task, base, model, ends_at)
        if self._learns(base, model, attempt):
            attempt = await self._attempt(task, base, model, ends_at)
            attempt.flags["dialect_learnt"] = None
            self._learns(
                base, model, attempt
            )  # a second lesson is for the next canary: a failing server gets less load
        if attempt.fault is not None and attempt.fault.outcome == "model_not_found":
            self._models.pop(base, None)
        return attempt.result(task, model, at_seconds)

    def _learns(self, base: str, model: str, attempt: "_Attempt") -> bool:
        fault = attempt.fault
        return fault is not None and fault.outcome == "bad_request" and self.dialects.learn(base, model, fault)

    async def _attempt(self, task: ProbeTask, base: str, model: str, ends_at: float) -> "_Attempt":
        request_id = REQUEST_ID_PREFIX + secrets.token_hex(12)
        body = spoken(chat_body(task, model), self.dialects.refused(base, model))
        request = _request(task, f"{base}/v1/chat/completions", body, request_id, ends_at)
        answer = ChatAnswer(self.clock, self.lag, ChatStream(model), task.max_tokens, task.stall_timeout_seconds)
        self.lag.start()
        try:
            done = await exchange(request, self.transport, self.clock, answer.read)
        finally:
            self.lag.stop()
        fault = answer.conclude(done.fault) if done.status == 200 else done.fault
        real = self.clock.real_seconds(1.0)
        return _Attempt(
            request_id=request_id,
            done=done,
            fault=_foreign_answer(done, answer.stream, request_id) or fault,
            figures=stream_figures(answer.stream, done.stamps.get("sent", 0.0), real),
            stream=answer.stream,
            timing_error_seconds=(answer.max_lag_real_seconds + QUIET_ERROR_REAL_SECONDS) / real,
        )


@dataclass(slots=True)
class _Attempt:
    request_id: str
    done: Exchange
    fault: StreamFault | None
    figures: StreamFigures
    stream: ChatStream
    timing_error_seconds: float
    flags: dict[str, None] = field(default_factory=dict)

    def result(self, task: ProbeTask, model: str, at_seconds: float) -> ProbeResult:
        figures, fault = self.figures, self.fault
        flags = dict.fromkeys(figures.flags) | self.flags
        ttft_seconds = figures.ttft_seconds
        bound = max(LAGGING_ERROR_SECONDS, LAGGING_ERROR_RATIO * (ttft_seconds or 0.0))
        if self.timing_error_seconds > bound:
            flags["client_lag"] = None
        return ProbeResult(
            target=task.target,
            kind=task.kind,
            outcome=fault.outcome if fault is not None else "ok",
            planned_at_seconds=task.planned_at_seconds,
            at_seconds=at_seconds,
            model=model,
            ttft_seconds=ttft_seconds,
            first_text_seconds=figures.first_text_seconds,
            tpot_seconds=figures.tpot_seconds,
            itl_gaps_seconds=figures.itl_gaps_seconds,
            e2e_seconds=figures.e2e_seconds,
            output_tokens=figures.output_tokens,
            prompt_tokens=self.stream.prompt_tokens,
            cached_tokens=self.stream.cached_tokens,
            timing_error_seconds=self.timing_error_seconds if "sent" in self.done.stamps else None,
            phases=self.done.phases(),
            flags=tuple(flags),
            request_id=self.request_id,
            detail=redact(fault.detail, (task.token, task.prompt)) if fault is not None else "",
        )


def chat_body(task: ProbeTask, model: str) -> dict[str, Any]:
    """What the canary asks for, before any dialect: exactly `max_tokens` tokens, counted by the server as they come."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": task.prompt}],
        "temperature": 0,
        "max_tokens": task.max_tokens,
        "min_tokens": task.max_tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }


def base_url(url: str) -> str | None:
    """The server's base without /v1; None for what is no http(s) URL with a host."""
    try:
        parts = urlsplit(url.strip())
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return None
    return url.strip().rstrip("/").removesuffix("/v1") if is_usable else None


def _request(task: ProbeTask, url: str, body: dict[str, Any] | None, request_id: str, ends_at: float) -> Request:
    headers = {"Accept-Encoding": "identity", "User-Agent": "vllm-slo-agent"}
    if task.token:
        headers["Authorization"] = f"Bearer {task.token}"
    if body is not None:
        headers |= {"Accept": "text/event-stream", "Content-Type": "application/json", "X-Request-Id": request_id}
    return Request(
        url=url,
        headers=headers,
        body=None if body is None else json.dumps(body).encode(),
        connect_timeout_seconds=task.connect_timeout_seconds,
        first_token_timeout_seconds=task.first_token_timeout_seconds,
        ends_at_loop_seconds=ends_at,
    )


def _foreign_answer(done: Exchange, stream: ChatStream, request_id: str) -> StreamFault | None:
    """An answer that names another canary's request is not ours; ids that a gateway made up say nothing."""
    for name in (done.headers.get("X-Request-Id", ""), stream.response_id):
        if REQUEST_ID_PREFIX in name and request_id not in name:
            return StreamFault("protocol", f"the answer is for another request: {name}")
    return None
