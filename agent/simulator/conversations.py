"""Clients that come back: conversations whose turns carry all turns before them, and agents that spoil their prefix."""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from random import Random

from agent.simulator.arrivals import Arrivals
from agent.simulator.ask import Ask, Sequence
from agent.simulator.lengths import Lengths, LogNormal

_BLOCKS_PER_CONVERSATION = 1_000_000  # names of blocks; no conversation has as many


@dataclass(frozen=True, slots=True)
class Habits:
    """How people (or agents) talk. `spoils_prefix`: every prompt begins with something new, such as the time of day."""

    system_tokens: int = 1024
    user_tokens: Lengths = field(default_factory=lambda: LogNormal(120, 0.8, 2000, 4))
    answer_tokens: Lengths = field(default_factory=lambda: LogNormal(180, 0.6, 900, 8))
    mean_turns: float = 5.0
    mean_pause_seconds: float = 20.0
    spoils_prefix: bool = False
    patience_seconds: float | None = None


@dataclass(slots=True)
class Conversation:
    """One of them: its number, the tokens said so far, the turns left."""

    number: int
    tokens: int
    turns_left: int
    names: dict[int, int] = field(default_factory=dict)


class Conversations:
    """New conversations arrive; each goes on after a pause for as long as its turns last and the model has room."""

    is_reactive = True

    def __init__(
        self, arrivals: Arrivals, habits: Habits, rng: Random, *, block_tokens: int = 16, max_model_len: int = 16_384
    ) -> None:
        self.arrivals = arrivals
        self._habits = habits
        self._rng = rng
        self._block_tokens = block_tokens
        self._max_model_len = max_model_len
        self._open: dict[int, Conversation] = {}
        self._due: list[tuple[float, int]] = []
        self._started = 0
        self._asked = 0

    def next_seconds(self, until_seconds: float) -> float:
        turn = self._due[0][0] if self._due and self._due[0][0] <= until_seconds else inf
        return min(turn, self.arrivals.next_seconds(until_seconds))

    def take(self) -> Ask:
        turn = self._due[0][0] if self._due else inf
        if self.arrivals.next_seconds(turn if turn < inf else self.arrivals.latest_seconds) <= turn:
            self.arrivals.take()
            self._started += 1
            turns = 1 + int(self._rng.expovariate(1 / max(self._habits.mean_turns - 1, 1e-9)) + 0.5)
            conversation = Conversation(self._started, self._habits.system_tokens, turns)
            self._open[conversation.number] = conversation
            return self._turn(conversation)
        return self._turn(self._open[heappop(self._due)[1]])

    def ended(self, sequence: Sequence, now_seconds: float) -> None:
        conversation = self._open.get(sequence.ask.conversation or 0)
        if conversation is None:
            return
        if sequence.state != "finished" or conversation.turns_left <= 0:
            del self._open[conversation.number]
            return
        conversation.tokens = sequence.ask.prompt_tokens + sequence.ask.output_tokens
        pause = self._rng.expovariate(1 / self._habits.mean_pause_seconds)
        heappush(self._due, (now_seconds + pause, conversation.number))

    def _turn(self, conversation: Conversation) -> Ask:
        habits = self._habits
        conversation.turns_left -= 1
        self._asked += 1
        prompt = conversation.tokens + habits.user_tokens.draw(self._rng)
        answer = habits.answer_tokens.draw(self._rng)
        prompt = min(prompt, self._max_model_len - answer - 1)
        if prompt + answer + 64 >= self._max_model_len:
            conversation.turns_left = 0
        blocks = prompt // self._block_tokens
        more = (prompt + answer) // self._block_tokens
        return Ask(
            f"c{conversation.number}.{self._asked}",
            prompt,
            answer,
            tuple(self._name(conversation, index) for index in range(blocks)),
            tuple(self._name(conversation, index) for index in range(blocks, more)),
            conversation=conversation.number,
            patience_seconds=habits.patience_seconds,
            finish_reason="stop",
        )

    def _name(self, conversation: Conversation, index: int) -> int:
        """The system prompt's blocks are everyone's, unless every prompt begins with something of its own."""
        if self._habits.spoils_prefix:
            return -(self._asked * _BLOCKS_PER_CONVERSATION + index) - 1
        if index < self._habits.system_tokens // self._block_tokens:
            return index
        return conversation.number * _BLOCKS_PER_CONVERSATION + index
