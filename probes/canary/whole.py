"""An answer that is no stream: its whole body, when the last of it came, and how far off its times may be."""

from dataclasses import dataclass, field
from typing import Final

import aiohttp

from probes.canary.exchange import Exchange, Request, exchange
from probes.canary.stamping import Stamper
from probes.canary.timers import Timers
from probes.canary.visit import Visit

_MAX_BODY_BYTES: Final = 4 << 20  # ten thousand models take about 2 MB


@dataclass(slots=True)
class Body:
    """A body of bounded size."""

    stamper: Stamper
    content: bytearray = field(default_factory=bytearray)
    content_type: str = ""
    ended_at_seconds: float | None = None

    async def read(self, response: aiohttp.ClientResponse, _: Timers) -> None:
        """Read until its end, or until it is too much."""
        self.content_type = response.content_type
        self.stamper.arrivals.take_after_ns()  # that of the head
        while len(self.content) < _MAX_BODY_BYTES:
            piece = await response.content.readany()
            if not piece:
                return
            self.ended_at_seconds = self.stamper.stamp()
            self.content += piece


@dataclass(frozen=True, slots=True)
class Whole:
    """What came of a request. `timing_error_seconds` is None where nothing was sent."""

    done: Exchange
    body: Body
    timing_error_seconds: float | None

    @property
    def took_seconds(self) -> float | None:
        """From the request sent to the last of its answer; None where there is none."""
        sent_at, ended_at = self.done.stamps.get("sent"), self.body.ended_at_seconds
        return None if sent_at is None or ended_at is None else ended_at - sent_at


async def whole_answer(visit: Visit, request: Request) -> Whole:
    """Send it, and have all of a 200's body. Raises nothing but cancellation."""
    body = Body(Stamper(visit.clock, visit.lag, request.arrivals))
    visit.lag.start()
    try:
        done = await exchange(request, visit.transport, visit.clock, body.read)
    finally:
        visit.lag.stop()
    error = (body.stamper.error_real_seconds + done.sent_error_real_seconds) / visit.clock.real_seconds(1.0)
    return Whole(done, body, error if "sent" in done.stamps else None)
