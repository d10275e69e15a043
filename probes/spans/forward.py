"""The same exports to the user's own collector: vLLM has one trace endpoint, and we must not take it away.

Best effort, and never in the way: a bounded queue, one try each, and what does not fit is dropped and counted.
"""

import asyncio
import io
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from probes.spans.counts import SpanCounts

log = logging.getLogger(__name__)

WAITING_BODIES: Final = 256
WAITING_BYTES: Final = 32 << 20
_STOP_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class ForwardTarget:
    """An OTLP/HTTP collector: `url` with its path (`http://collector:4318/v1/traces`), and what it wants to see."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a token
    timeout_seconds: float = 10.0


class SpanForwarder:
    """Sends whole exports on, in order, one at a time, with a session of the caller's."""

    def __init__(self, target: ForwardTarget, session: aiohttp.ClientSession, counts: SpanCounts) -> None:
        self._target, self._session, self._counts = target, session, counts
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(WAITING_BODIES)
        self._waiting_bytes = 0
        self._is_reached = True
        self._sending: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to send; needs a running loop."""
        self._sending = asyncio.create_task(self._send_all(), name="spans-forward")

    def offer(self, body: bytes) -> None:
        """Send this body when its turn comes; where too much waits, it is dropped."""
        if self._waiting.full() or self._waiting_bytes + len(body) > WAITING_BYTES:
            self._counts.forwarded["dropped"] += 1
            return
        self._waiting.put_nowait(body)
        self._waiting_bytes += len(body)

    async def stop(self) -> None:
        """Give what waits two seconds; the rest is counted as dropped. Safe to call twice."""
        sending, self._sending = self._sending, None
        if sending is None:
            return
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._waiting.join()
        except TimeoutError:
            log.warning("spans not forwarded bodies=%d", self._waiting.qsize())
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        if unsent := self._waiting.qsize():
            self._counts.forwarded["dropped"] += unsent

    async def _send_all(self) -> None:
        while True:
            body = await self._waiting.get()
            is_sent = False
            try:
                is_sent = await self._send(body)
            finally:
                self._counts.forwarded["ok" if is_sent else "failed"] += 1
                self._waiting_bytes -= len(body)
                self._waiting.task_done()
            self._note(is_reached=is_sent)

    async def _send(self, body: bytes) -> bool:
        headers = {**self._target.headers, "Content-Type": "application/x-protobuf"}
        try:
            async with (
                asyncio.timeout(self._target.timeout_seconds),
                self._session.post(
                    self._target.url, data=io.BytesIO(body), headers=headers, allow_redirects=False
                ) as answer,
            ):
                return 200 <= answer.status < 300
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, RuntimeError):  # the last: a closed session
            return False

    def _note(self, *, is_reached: bool) -> None:
        if is_reached == self._is_reached:
            return
        self._is_reached = is_reached
        where = urlsplit(self._target.url).netloc.rpartition("@")[2]
        if is_reached:
            log.info("spans forwarded again collector=%s", where)
        else:
            log.warning("spans not taken by the collector collector=%s", where)
