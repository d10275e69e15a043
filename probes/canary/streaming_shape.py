"""The streaming-shape canary: does text come as it is made, or in lumps?"""

from dataclasses import replace
from itertools import pairwise
from typing import Literal

from pydantic import Field

from probes.canary.item import CanaryItem, Cost, text_tokens
from probes.canary.task import ProbeTask
from probes.canary.visit import CHAT_PATH, Visit, message, streamed
from probes.sample import ProbeResult
from probes.stream import ChatStream
from probes.units import Seconds

PROMPT = "Count from one to one hundred in words."


class StreamingShapeCanary(CanaryItem):
    """A longer stream, looked at for lumps: buffered by a proxy, coalesced, many tokens an event, one long stall."""

    kind: Literal["streaming_shape"] = "streaming_shape"
    interval_seconds: Seconds = Field(900, description="Planned time between two canaries on one target, seconds.")
    max_tokens: int = Field(64, ge=16, le=512, description="Tokens asked for: enough to tell lumps from chance.")

    def cost(self) -> Cost:
        """The prompt is always the same."""
        return Cost(1, text_tokens(PROMPT), 0, self.max_tokens)

    def fill(self, task: ProbeTask) -> ProbeTask:
        """How many tokens to look at."""
        return replace(CanaryItem.fill(self, task), prompt=PROMPT, max_tokens=self.max_tokens)


async def run(visit: Visit) -> ProbeResult:
    """One chat completion, and the shape of its stream."""
    answered = await visit.ask(CHAT_PATH, message(visit.task.prompt) | streamed(visit.task.max_tokens))
    return answered.result(shape(answered.stream))


def shape(stream: ChatStream) -> dict[str, float | None]:
    """How the token events came: in how many pieces, the largest piece's share of them, the longest gap between two.

    In an even stream every event is a piece of its own; where a proxy buffers the whole answer, one piece has all.
    All None without token events.
    """
    stamps = [event.at_seconds for event in stream.token_events]
    if not stamps:
        return {"token_events": None, "pieces": None, "largest_piece_ratio": None, "longest_gap_ratio": None}
    pieces: dict[float, int] = {}
    for stamp in stamps:
        pieces[stamp] = pieces.get(stamp, 0) + 1
    span = stamps[-1] - stamps[0]
    longest = max((after - before for before, after in pairwise(pieces)), default=None)
    return {
        "token_events": float(len(stamps)),
        "pieces": float(len(pieces)),
        "largest_piece_ratio": max(pieces.values()) / len(stamps),
        "longest_gap_ratio": longest / span if longest is not None and span > 0 else None,
    }
