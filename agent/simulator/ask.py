"""What one request asks for, and what became of it: the simulator's truth per request."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

State = Literal["arriving", "waiting", "loading", "running", "finished", "aborted", "failed"]
FinishReason = Literal["length", "stop", "abort", "error"]
Leg = Literal["whole", "prefill", "decode"]
"""`prefill` computes the prompt and keeps its KV for the `decode` leg, which pulls it instead of computing."""
ENDED: frozenset[State] = frozenset({"finished", "aborted", "failed"})


@dataclass(frozen=True, slots=True)
class Ask:
    """One request as a client sends it.

    `block_hashes` names the leading full KV blocks of the prompt that another request could share (in vLLM: hash of a
    block's tokens, of all blocks before it, and of the cache salt); blocks beyond them are this request's own.
    `output_hashes` does the same for the blocks that follow the prompt's, for the next turn of a conversation.
    `patience_seconds` is how long the client waits for the first token before it hangs up; None: for ever.
    """

    id: str
    prompt_tokens: int
    output_tokens: int
    block_hashes: tuple[int, ...] = ()
    output_hashes: tuple[int, ...] = ()
    priority: int = 0
    finish_reason: FinishReason = "length"
    max_tokens: int | None = None
    patience_seconds: float | None = None
    conversation: int | None = None
    endpoint: str = "/v1/chat/completions"
    leg: Leg = "whole"


@dataclass(slots=True, eq=False)
class Sequence:
    """A request inside one engine. Stamps are in the fleet's time; None means: has not happened.

    `resident_tokens` counts tokens whose KV is in the engine, `generated_tokens` those given out, `found_blocks` the
    leading blocks of the prompt that were known when it was first looked up. `token_stamps`, where
    it is a list, gets the time of every token.
    """

    ask: Ask
    arrived_at_seconds: float
    state: State = "arriving"
    queued_at_seconds: float = 0.0
    scheduled_at_seconds: float | None = None
    first_token_at_seconds: float | None = None
    last_token_at_seconds: float | None = None
    ended_at_seconds: float | None = None
    generated_tokens: int = 0
    resident_tokens: int = 0
    held_blocks: int = 0
    shared_hashes: list[int] = field(default_factory=list)
    found_blocks: int = 0
    asked_kv_source: bool = False
    cached_tokens: int = 0
    external_tokens: int = 0
    preemptions: int = 0
    replica: str = ""
    sent_at_seconds: float | None = None
    token_stamps: list[float] | None = None
    on_end: Callable[["Sequence"], None] | None = None

    @property
    def known_tokens(self) -> int:
        """Prompt and answer so far; all but the newest must be resident before the next token can be made."""
        return self.ask.prompt_tokens + self.generated_tokens

    @property
    def is_running(self) -> bool:
        """In the batch, as opposed to waiting for it."""
        return self.state == "running"

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    @property
    def client_ttft_seconds(self) -> float | None:
        """From the client's sending to the first token, over all legs; None when there was no token."""
        if self.first_token_at_seconds is None:
            return None
        return self.first_token_at_seconds - (
            self.arrived_at_seconds if self.sent_at_seconds is None else self.sent_at_seconds
        )
