"""A few requests of our own to a real vLLM, each in a thread, with what each of them was answered."""

import json
import random
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

PROMPT_WORDS = 250  # about 900 tokens of the tiny model's vocabulary: several chunks of a cache
ANSWER_SECONDS = 120.0


def complete(url: str, seed: int, tokens: int = 8) -> int:
    """One completion of the prompt of this seed; how many tokens came. Raises OSError where there is no answer."""
    words = random.Random(seed)  # noqa: S311  a prompt
    prompt = " ".join(str(words.randrange(1000)) for _ in range(PROMPT_WORDS))
    body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), headers)  # noqa: S310  ours
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310  our own server
        return int(json.loads(answer.read())["usage"]["completion_tokens"])


def complete_all(url: str, seeds: range, tokens: int, at_once: int) -> int:
    """So many completions, some at once; the tokens that came."""
    with ThreadPoolExecutor(at_once) as pool:
        return sum(pool.map(lambda seed: complete(url, seed, tokens), seeds))


@contextmanager
def asking(url: str, prompts: int) -> Iterator[list[bool]]:
    """Someone who asks one thing after the other, of so many prompts in turn; whether each was answered."""
    answered: list[bool] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.wait(0.3):
            try:
                answered.append(complete(url, len(answered) % prompts) == 8)
            except OSError:
                answered.append(False)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answered
    finally:
        is_over.set()
        thread.join()
