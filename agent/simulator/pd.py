"""Prefill and decode on separate engines: two legs a request, and the KV pulled from one to the other over NIXL."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent.simulator.ask import Sequence
from agent.simulator.engine import Engine
from agent.simulator.fleet import Call, Fleet
from agent.simulator.kv_source import Load
from agent.simulator.router import Router
from agent.simulator.telemetry import Telemetry

FIRST_POST_SECONDS = 0.4  # the middle of the bucket that holds it
FINE_DESCRIPTORS = (5_138_688 - 32_768) / 168
FINE_POST_SECONDS = (17.561 - FIRST_POST_SECONDS) / 168
COARSE_DESCRIPTORS = 4_050.0
COARSE_POST_SECONDS = (64 * 10.1e-3 - FIRST_POST_SECONDS) / 63
POST_SECONDS_PER_DESCRIPTOR = (FINE_POST_SECONDS - COARSE_POST_SECONDS) / (FINE_DESCRIPTORS - COARSE_DESCRIPTORS)


@dataclass(frozen=True, slots=True)
class Link:
    """What a KV transfer costs: two lines through the two measured set-ups (facts/h200.md, page vllm_0.24_pd_decode).

    Post time (the decode loop stands still): 17.561 s over 169 transfers and 5,138,688 descriptors with 16-token
    blocks; 10.1 ms over 64 transfers of 4,050 with 128-token blocks. The page's histogram has exactly one post of 0.3
    to 0.5 s: the first of a pair, which shakes hands. Without it: 102.1 ms for 30,392 descriptors, 3.9 for 4,050.
    The rest of a transfer: 32.9 ms for 0.996 GB in 30,406 descriptors, 16.5 ms for 1.062 GB in 4,050.
    A block has one descriptor per layer for keys and one for values.
    """

    first_post_seconds: float = FIRST_POST_SECONDS
    post_seconds_per_descriptor: float = POST_SECONDS_PER_DESCRIPTOR
    post_offset_seconds: float = COARSE_POST_SECONDS - COARSE_DESCRIPTORS * POST_SECONDS_PER_DESCRIPTOR
    wire_seconds_per_descriptor: float = 0.6545e-6
    bytes_per_second: float = 76.7e9
    descriptors_per_block: int = 64
    kv_bytes_per_token: int = 131_072
    slowdown: float = 1.0

    def descriptors(self, tokens: int, block_tokens: int) -> int:
        """How many pieces a transfer of so many tokens has."""
        return -(-tokens // block_tokens) * self.descriptors_per_block

    def post_seconds(self, descriptors: int) -> float:
        """How long posting them takes; the line crosses zero at about 3,000 descriptors."""
        return max(0.0, self.post_offset_seconds + self.post_seconds_per_descriptor * descriptors) * self.slowdown

    def wire_seconds(self, tokens: int, descriptors: int) -> float:
        """How long the bytes are under way after the posting."""
        size_bytes = tokens * self.kv_bytes_per_token
        return (size_bytes / self.bytes_per_second + self.wire_seconds_per_descriptor * descriptors) * self.slowdown


class NixlPull:
    """The decode side's connector: everything of the prompt that is not here is pulled from the prefill side."""

    def __init__(
        self, link: Link, block_tokens: int, telemetry: Telemetry, on_pull: Callable[[str, float], None]
    ) -> None:
        self.link = link
        self._block_tokens = block_tokens
        self._telemetry = telemetry
        self._on_pull = on_pull
        self._posting_until_seconds = 0.0
        self._has_met = False

    def load(self, sequence: Sequence, local_tokens: int, now_seconds: float) -> Load | None:
        if sequence.ask.leg != "decode":
            return None
        tokens = sequence.ask.prompt_tokens - local_tokens
        count = self.link.descriptors(tokens, self._block_tokens)
        post = self.link.post_seconds(count) + (0.0 if self._has_met else self.link.first_post_seconds)
        self._has_met = True
        begin = max(now_seconds, self._posting_until_seconds)
        self._posting_until_seconds = begin + post
        transfer = post + self.link.wire_seconds(tokens, count)
        ready = begin + transfer
        self._telemetry.observe("nixl_xfer_time_seconds", transfer)
        self._telemetry.observe("nixl_post_time_seconds", post)
        self._telemetry.observe("nixl_bytes_transferred", tokens * self.link.kv_bytes_per_token)
        self._telemetry.observe("nixl_num_descriptors", count)
        self._on_pull(sequence.ask.id, ready)
        return Load(tokens, ready, post)

    def store(self, sequence: Sequence, now_seconds: float) -> None:
        """A pull connector keeps nothing."""


class PrefillThenDecode:
    """A proxy: the prompt goes to a prefill engine for one token, then to a decode engine, which pulls the KV."""

    is_reactive = True

    def __init__(self, prefill_router: Router, decode_router: Router) -> None:
        self._prefill_router = prefill_router
        self._decode_router = decode_router
        self._held: dict[str, tuple[Engine, Sequence]] = {}
        self._fleet: Fleet | None = None

    def send(self, fleet: Fleet, call: Call, now_seconds: float) -> None:
        self._fleet = fleet
        first = replace(call.ask, output_tokens=1, leg="prefill", finish_reason="length", max_tokens=1)

        def then(sequence: Sequence) -> None:
            if sequence.state != "finished" or call.engine is None or sequence.ended_at_seconds is None:
                fleet.close(sequence)
                return
            self._held[call.ask.id] = (call.engine, sequence)
            second = replace(call.ask, leg="decode")
            fleet.place(call, second, "decode", self._decode_router, sequence.ended_at_seconds, close)

        def close(sequence: Sequence) -> None:
            self._let_go(call.ask.id, fleet.now_seconds)
            fleet.close(sequence)

        fleet.place(call, first, "prefill", self._prefill_router, now_seconds, then)

    def pulled(self, name: str, ready_at_seconds: float) -> None:
        """The prefill side may free the blocks when the transfer is complete."""
        if self._fleet is not None:
            self._fleet.at(ready_at_seconds, lambda at: self._let_go(name, at))

    def _let_go(self, name: str, now_seconds: float) -> None:
        held = self._held.pop(name, None)
        if held is not None:
            held[0].release(held[1], now_seconds)
