"""Text in and out: how many tokens a prompt is, which KV blocks it can share, and the words of an answer."""

from hashlib import blake2b
from typing import Any

CHARACTERS_PER_TOKEN = 4  # the usual rule of thumb for English text
WORDS = (
    *("the", "engine", "reads", "a", "block", "of", "keys", "and", "values", "then", "writes", "one", "token", "for"),
    *("each", "request", "in", "its", "batch", "until", "every", "answer", "is", "complete"),
)


def prompt_of(body: dict[str, Any]) -> list[int] | str | None:
    """The prompt of a chat or completion request: token ids, or its text; None where there is none."""
    if "messages" in body:
        messages = body["messages"]
        if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
            return None
        return "\n".join(f"{message.get('role')}: {_text(message.get('content'))}" for message in messages)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return prompt
    if isinstance(prompt, list) and len(prompt) == 1:
        return prompt[0] if isinstance(prompt[0], str | list) else None
    return prompt if isinstance(prompt, str) and prompt else None


def token_count(prompt: list[int] | str) -> int:
    """Token ids are counted; text is taken at four characters a token."""
    if isinstance(prompt, str):
        return max(1, -(-len(prompt) // CHARACTERS_PER_TOKEN))
    return len(prompt)


def block_hashes(prompt: list[int] | str, block_tokens: int, salt: str = "") -> tuple[int, ...]:
    """One name per full block; it depends on everything before the block, and on the cache salt."""
    digest = blake2b(salt.encode(), digest_size=8)
    count = token_count(prompt) // block_tokens
    width = block_tokens * (CHARACTERS_PER_TOKEN if isinstance(prompt, str) else 1)
    names = []
    for index in range(count):
        piece = prompt[index * width : (index + 1) * width]
        digest.update(piece.encode() if isinstance(piece, str) else repr(piece).encode())
        names.append(int.from_bytes(digest.digest(), "big"))
    return tuple(names)


def word(seed: int, index: int) -> str:
    """The token at `index` of an answer: always the same for the same prompt."""
    return " " + WORDS[(seed + index * (1 + seed % 7)) % len(WORDS)]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return "" if content is None else str(content)
