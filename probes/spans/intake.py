"""Between receiving and reading: a bounded queue, and one thread that decodes, so that the loop never waits for it."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal

from probes.spans.counts import SpanCounts
from probes.spans.decode import Decoded, decode_export
from probes.spans.forward import SpanForwarder
from probes.spans.limits import SpanLimits
from probes.spans.result import SpanResult
from probes.spans.seen import SeenSpans
from probes.spans.wire import WireError, check_export

log = logging.getLogger(__name__)

Admission = Literal["accepted", "busy", "malformed", "stopping"]
Deliver = Callable[[Sequence[SpanResult]], None]
_DELIVERED_AT_ONCE: Final = 500
_STOP_SECONDS: Final = 2.0


class SpanIntake:
    """Takes whole exports from the receivers, hands their requests to `deliver` on the event loop, in slices.

    Canaries are delivered too, marked. `deliver` should be quick; one that raises costs its slice, told once each.
    """

    def __init__(
        self, deliver: Deliver, counts: SpanCounts, limits: SpanLimits, forwarder: SpanForwarder | None = None
    ) -> None:
        self._deliver, self._counts, self._limits, self._forwarder = deliver, counts, limits, forwarder
        self._seen = SeenSpans()
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting_bytes = 0
        self._thread: ThreadPoolExecutor | None = None
        self._reading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read; needs a running loop."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spans")
        self._reading = asyncio.create_task(self._read_all(self._thread), name="spans-intake")

    def offer(self, body: bytes, protocol: str) -> Admission:
        """Take one export (an ExportTraceServiceRequest), or say why not. Never waits."""
        admission = self._admit(body)
        if admission == "accepted":
            self._counts.bodies[protocol] += 1
            self._waiting_bytes += len(body)
            self._waiting.put_nowait(body)
            if self._forwarder is not None:
                self._forwarder.offer(body)
        else:
            self._counts.refused[admission] += 1
        return admission

    async def stop(self) -> None:
        """Read what waits, for at most two seconds; the rest is counted as unread. Safe to call twice."""
        reading, self._reading = self._reading, None
        if reading is None or self._thread is None:
            return
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._waiting.join()
        except TimeoutError:
            log.warning("spans left unread bodies=%d", self._waiting.qsize())
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        if unread := self._waiting.qsize():
            self._counts.lost["unread"] += unread
        self._waiting, self._waiting_bytes = asyncio.Queue(), 0
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _admit(self, body: bytes) -> Admission:
        if self._reading is None:
            return "stopping"
        is_full = self._waiting.qsize() >= self._limits.waiting_bodies
        if is_full or self._waiting_bytes + len(body) > self._limits.waiting_bytes:
            return "busy"
        try:
            check_export(body)
        except WireError:
            return "malformed"
        return "accepted"

    async def _read_all(self, thread: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            body = await self._waiting.get()
            try:
                await self._take(await loop.run_in_executor(thread, decode_export, body, self._limits))
            except asyncio.CancelledError:
                self._counts.lost["unread"] += 1
                raise
            except Exception:  # a fault of ours in one body must not end the receiver
                self._counts.lost["error"] += 1
                log.exception("spans not read bytes=%d", len(body))
            finally:
                self._waiting_bytes -= len(body)
                self._waiting.task_done()

    async def _take(self, decoded: Decoded) -> None:
        self._counts.lost.update(decoded.lost)
        self._counts.add_others(decoded.others)
        fresh = self._seen.fresh(decoded.spans)
        self._counts.repeated += len(decoded.spans) - len(fresh)
        for start in range(0, len(fresh), _DELIVERED_AT_ONCE):
            part = fresh[start : start + _DELIVERED_AT_ONCE]
            canaries = sum(span.is_canary for span in part)
            self._counts.canaries += canaries
            self._counts.requests += len(part) - canaries
            self._deliver(part)
            await asyncio.sleep(0)
