"""The bodies that vLLM 0.32's OpenAI front end sends: chunks of a stream, whole answers, errors."""

import json
from dataclasses import dataclass
from typing import Any

from agent.simulator.prompt_text import word


@dataclass(frozen=True, slots=True)
class Answer:
    """What a response is made of. `text_seed` decides its words, so equal prompts have equal answers."""

    id: str
    model: str
    created: int
    is_chat: bool
    prompt_tokens: int
    text_seed: int

    def role_chunk(self, *, usage: bool) -> bytes:
        """The first chunk of a chat stream, which carries the role and no token."""
        delta = {"role": "assistant", "content": ""}
        return self._event(
            [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}], 0 if usage else None
        )

    def token_chunk(self, index: int, finish_reason: str | None, *, usage: bool) -> bytes:
        """The chunk of one token."""
        text = word(self.text_seed, index)
        choice: dict[str, Any] = (
            {"index": 0, "delta": {"content": text}} if self.is_chat else {"index": 0, "text": text}
        )
        choice |= {"logprobs": None, "finish_reason": finish_reason, "stop_reason": None}
        return self._event([choice], index + 1 if usage else None)

    def usage_chunk(self, tokens: int, cached_tokens: int) -> bytes:
        """The last chunk where usage is asked for; with cached tokens, as --enable-prompt-tokens-details does."""
        return self._event([], tokens, cached_tokens)

    def body(self, tokens: int, finish_reason: str, cached_tokens: int) -> dict[str, Any]:
        """The whole answer at once."""
        text = "".join(word(self.text_seed, index) for index in range(tokens))
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish_reason, "stop_reason": None}
        choice |= {"message": {"role": "assistant", "content": text}} if self.is_chat else {"text": text}
        usage = self.usage(tokens) | {"prompt_tokens_details": {"cached_tokens": cached_tokens}}
        return {**self._frame(), "object": self._object(), "choices": [choice], "usage": usage}

    def usage(self, tokens: int) -> dict[str, Any]:
        """Token counts as OpenAI names them."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + tokens,
            "completion_tokens": tokens,
        }

    def _object(self) -> str:
        return "chat.completion" if self.is_chat else "text_completion"

    def _frame(self) -> dict[str, Any]:
        return {"id": self.id, "created": self.created, "model": self.model}

    def _event(self, choices: list[dict[str, Any]], tokens: int | None, cached_tokens: int = 0) -> bytes:
        kind = "chat.completion.chunk" if self.is_chat else "text_completion"
        body = {**self._frame(), "object": kind, "choices": choices}
        if tokens is not None:
            body["usage"] = self.usage(tokens)
            if cached_tokens:
                body["usage"]["prompt_tokens_details"] = {"cached_tokens": cached_tokens}
        return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def error_body(message: str, kind: str, code: int) -> dict[str, Any]:
    """An error as vLLM words it."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
