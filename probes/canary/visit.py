"""One canary's visit to one server: it asks, in the server's dialect, and hands the answer back with every figure."""

import asyncio
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from probes.canary.answer import ChatAnswer
from probes.canary.arrival import Arrivals
from probes.canary.dialect import spoken
from probes.canary.exchange import Exchange, Request, exchange
from probes.canary.figures import StreamFigures, stream_figures
from probes.canary.lag import LagMonitor
from probes.canary.memory import Memory
from probes.canary.redaction import redact
from probes.canary.stamping import Stamper
from probes.canary.task import ProbeTask
from probes.canary.transport import Transport
from probes.clock import Clock
from probes.sample import ProbeResult, SentRequest
from probes.stream import ChatStream, StreamFault

REQUEST_ID_PREFIX: Final = "slo-canary-"
# A sample that the client itself may have moved by more than this, and by more than 5 % of its TTFT, is marked.
LAGGING_ERROR_SECONDS: Final = 0.020
LAGGING_ERROR_RATIO: Final = 0.05
RANK_HEADER: Final = "X-data-parallel-rank"  # vLLM 0.32 pins a request to a rank with it; a gateway may strip it
CHAT_PATH: Final = "/v1/chat/completions"
COMPLETION_PATH: Final = "/v1/completions"
RESPONSES_PATH: Final = "/v1/responses"


def fresh_request_id() -> str:
    """One that is known as ours wherever it is seen again."""
    return REQUEST_ID_PREFIX + secrets.token_hex(12)


@dataclass(frozen=True, slots=True)
class Visit:
    """Where a canary is, and what it may use. `ends_at_loop_seconds` is the end of its total timeout.

    `sent` are the completions that it has asked for so far.
    """

    task: ProbeTask
    base: str
    model: str
    at_seconds: float
    ends_at_loop_seconds: float
    clock: Clock
    transport: Transport
    lag: LagMonitor
    memory: Memory
    sent: list[SentRequest] = field(default_factory=list)

    def request(self, path: str, body: Mapping[str, Any] | None = None, request_id: str = "") -> Request:
        """A request to this server with what the task says of secrets and timeouts."""
        task = self.task
        headers = dict(task.route.headers) | {"Accept-Encoding": "identity", "User-Agent": "vllm-slo-agent"}
        if body is not None:
            headers["Content-Type"] = "application/json"
            if body.get("stream"):
                headers["Accept"] = "text/event-stream"
        if request_id:
            headers["X-Request-Id"] = request_id
        if task.rank:
            headers[RANK_HEADER] = task.rank
        if task.token:
            headers["Authorization"] = f"Bearer {task.token}"
        return Request(
            url=self.base + path,
            headers=headers,
            body=None if body is None else json.dumps(body).encode(),
            connect_timeout_seconds=task.connect_timeout_seconds,
            first_token_timeout_seconds=task.first_token_timeout_seconds,
            ends_at_loop_seconds=self.ends_at_loop_seconds,
            route=task.route,
            arrivals=Arrivals(self.lag),
        )

    async def ask(self, path: str, body: Mapping[str, Any]) -> "Answered":
        """One streamed completion, and once more if the server's 400 taught us its dialect."""
        answered = await self._attempt(path, body)
        own_words = ("request_id",) if path == RESPONSES_PATH else ()
        if self._learns(answered, own_words):
            answered = await self._attempt(path, body)
            answered.flags["dialect_learnt"] = None
            self._learns(answered, own_words)  # a second lesson is for the next canary: a failing server gets less load
        if answered.fault is not None and answered.fault.outcome == "model_not_found":
            self.memory.models.pop(self.base, None)
        return answered

    def redacted(self, text: str) -> str:
        """A server's words without what must not be told."""
        return redact(text, self.task.secrets)

    def _learns(self, answered: "Answered", own_words: tuple[str, ...]) -> bool:
        fault = answered.fault
        return (
            fault is not None
            and fault.outcome == "bad_request"
            and self.memory.dialects.learn(self.base, self.model, fault, own_words)
        )

    async def _attempt(self, path: str, body: Mapping[str, Any]) -> "Answered":
        request_id = fresh_request_id()
        named = {"request_id": request_id} if path == RESPONSES_PATH else {}  # vLLM takes its id from nowhere else
        said = spoken({"model": self.model, **body, **named}, self.memory.dialects.refused(self.base, self.model))
        request = self.request(path, said, request_id)
        answer = ChatAnswer(
            Stamper(self.clock, self.lag, request.arrivals),
            ChatStream(self.model),
            self.task.max_tokens,
            self.task.stall_timeout_seconds,
        )
        self.lag.start()
        try:
            done = await exchange(request, self.transport, self.clock, answer.read)
        finally:
            self.lag.stop()
        fault = answer.conclude(done.fault) if done.status == 200 else done.fault
        real = self.clock.real_seconds(1.0)
        answered = Answered(
            visit=self,
            request_id=request_id,
            done=done,
            fault=_foreign_answer(done, answer.stream, request_id) or fault,
            figures=stream_figures(answer.stream, done.stamps.get("sent", 0.0), real),
            stream=answer.stream,
            timing_error_seconds=(answer.stamper.error_real_seconds + done.sent_error_real_seconds) / real,
        )
        if done.status is not None and len(set(request.arrivals.addresses)) > 1:
            answered.flags["address_failed"] = None
        if "sent" in done.stamps:
            self.sent.append(answered.as_sent())
        return answered


@dataclass(slots=True)
class Answered:
    """What came of one request. `fault` is why there is no good answer; None when there is one."""

    visit: Visit
    request_id: str
    done: Exchange
    fault: StreamFault | None
    figures: StreamFigures
    stream: ChatStream
    timing_error_seconds: float
    flags: dict[str, None] = field(default_factory=dict)

    def as_sent(self) -> SentRequest:
        """What the engine must have counted of it. Figures are given for a broken answer too: it was counted."""
        stamps, figures, clock = self.done.stamps, self.figures, self.visit.clock
        to_unix = clock.now_seconds() - clock.monotonic_seconds()
        first = None if figures.ttft_seconds is None else stamps["sent"] + figures.ttft_seconds + to_unix
        return SentRequest(
            sent_at_seconds=stamps["sent"] + to_unix,
            ended_at_seconds=clock.now_seconds(),
            model=self.visit.model,
            first_token_at_seconds=first,
            head_seconds=self.done.between("sent", "head") or 0.0,
            ttft_seconds=figures.ttft_seconds,
            tpot_seconds=figures.tpot_seconds,
            e2e_seconds=figures.e2e_seconds,
            itl_gaps_seconds=figures.itl_gaps_seconds,
            prompt_tokens=self.stream.prompt_tokens,
            cached_tokens=self.stream.cached_tokens,
            output_tokens=figures.output_tokens,
            finish_reason=self.stream.finish_reason or "",
            timing_error_seconds=self.timing_error_seconds,
            rank=self.visit.task.rank,
            target=self.visit.task.target,
        )

    def result(self, kind_figures: Mapping[str, float | None] | None = None) -> ProbeResult:
        """The result of the visit, with what only its kind has."""
        task, figures, fault = self.visit.task, self.figures, self.fault
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
            at_seconds=self.visit.at_seconds,
            model=self.visit.model,
            first_event_seconds=figures.first_event_seconds,
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
            detail=self.visit.redacted(fault.detail) if fault is not None else "",
            figures=dict(kind_figures or {}),
            sent=tuple(self.visit.sent),
            rank=task.rank,
        )


def streamed(max_tokens: int, *, exactly: bool = True) -> dict[str, Any]:
    """What every completion asks for, before any dialect: a stream of tokens, counted by the server as they come.

    `exactly` so many tokens make figures comparable; without it the model may stop by itself.
    """
    count = {"min_tokens": max_tokens, "ignore_eos": True} if exactly else {}
    return {
        "temperature": 0,
        "max_tokens": max_tokens,
        **count,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }


def message(prompt: str) -> dict[str, Any]:
    """A chat of one user message."""
    return {"messages": [{"role": "user", "content": prompt}]}


async def pause(visit: Visit, seconds: float) -> None:
    """Wait so long on the visit's clock."""
    await asyncio.sleep(visit.clock.real_seconds(seconds))


def _foreign_answer(done: Exchange, stream: ChatStream, request_id: str) -> StreamFault | None:
    """An answer that names another canary's request is not ours; ids that a gateway made up say nothing."""
    for name in (done.headers.get("X-Request-Id", ""), stream.response_id):
        if REQUEST_ID_PREFIX in name and request_id not in name:
            return StreamFault("protocol", f"the answer is for another request: {name}")
    return None
