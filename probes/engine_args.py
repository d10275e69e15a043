"""What the arguments of `vllm serve` say about an engine, where its page does not. Only flags that we know are kept:
others may hold secrets.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["count", "ratio", "word", "switch", "given"]
# Source: vLLM 0.32, engine/arg_utils.py. A switch has no value; of what is given its value is not kept.
FLAGS: Final[dict[str, Kind]] = {
    "max-num-batched-tokens": "count",
    "max-num-seqs": "count",
    "pipeline-parallel-size": "count",
    "data-parallel-size": "count",
    "gpu-memory-utilization": "ratio",
    "kv-cache-dtype": "word",
    "scheduling-policy": "word",
    "enable-expert-parallel": "switch",
    "enable-lora": "switch",
    "speculative-config": "given",
}
SHORT: Final = {"-pp": "pipeline-parallel-size", "-dp": "data-parallel-size", "-sc": "speculative-config"}
_COUNT = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG]?)")
_SCALE = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True, slots=True)
class EngineArgs:
    """What an engine was started with; None: not said, and then it is vLLM's default or in a file of its own.

    `flags` are the known ones, as given. Later ones win, as in vLLM.
    """

    flags: tuple[tuple[str, str], ...] = ()

    def count(self, flag: str) -> int | None:
        """A whole number."""
        word = dict(self.flags).get(flag)
        return None if word is None else _count(word)

    def ratio(self, flag: str) -> float | None:
        """A number from 0 to 1."""
        word = dict(self.flags).get(flag)
        return None if word is None else _ratio(word)

    def word(self, flag: str) -> str | None:
        """A word."""
        return dict(self.flags).get(flag)

    def has(self, flag: str) -> bool:
        """Whether it was given."""
        return flag in dict(self.flags)

    def __str__(self) -> str:
        """The same as arguments, without anything that is not known."""
        return " ".join(f"--{flag}={shlex.quote(value)}" if value else f"--{flag}" for flag, value in self.flags)


def engine_args(text: str) -> tuple[EngineArgs, list[str]]:
    """The arguments of a command line, and what of the known ones cannot be understood, one sentence each."""
    try:
        return args_of(shlex.split(text))
    except ValueError as error:
        return EngineArgs(), [f"{error}; expected arguments of vllm serve, such as --max-num-seqs 64"]


def args_of(words: Sequence[str]) -> tuple[EngineArgs, list[str]]:
    """The same of words. A word with spaces in it is a command line of its own, as in sh -c "vllm serve ..."."""
    found: dict[str, str] = {}
    mistakes = []
    for flag, value in _given(list(_unfolded(words))):
        found.pop(flag, None)  # the last one counts, and what cannot be understood, such as a variable, is not known
        kind = FLAGS[flag]
        if kind == "given" or (kind == "switch" and value in ("", "true")):
            found[flag] = ""
        elif kind in UNDERSTOOD and UNDERSTOOD[kind](value):
            found[flag] = value
        elif kind != "switch":
            mistakes.append(f"--{flag} is {value!r}; expected a {WANTED[kind]}")
    return EngineArgs(tuple(found.items())), mistakes


def _unfolded(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if not re.search(r"\s", word):
            yield word
            continue
        try:
            yield from shlex.split(word)
        except ValueError:  # not a command line: JSON with quotes of its own, a script
            yield from word.split()


def _given(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(flag, value) of the known ones; vLLM takes underscores for dashes."""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        flag = SHORT.get(name, name.removeprefix("--").replace("_", "-") if name.startswith("--") else "")
        if flag.startswith("no-") and FLAGS.get(flag.removeprefix("no-")) == "switch":
            yield flag.removeprefix("no-"), "no"
        elif flag in FLAGS:
            is_alone = equals or FLAGS[flag] == "switch"
            yield flag, value if is_alone else words[place + 1] if place + 1 < len(words) else ""


def _count(word: str) -> int | None:
    """A whole number; vLLM takes 8k as 8,000 and 8K as 8,192."""
    match = _COUNT.fullmatch(word)
    if match is None or ("." in match[1] and not match[2]):
        return None
    return int(float(match[1]) * _SCALE[match[2]])


def _ratio(word: str) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return number if 0 < number <= 1 else None


def _is_word(word: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.-]+", word) is not None


UNDERSTOOD: Final[Mapping[Kind, Callable[[str], bool]]] = {
    "count": lambda word: _count(word) is not None,
    "ratio": lambda word: _ratio(word) is not None,
    "word": _is_word,
}
WANTED: Final[Mapping[Kind, str]] = {"count": "whole number", "ratio": "ratio between 0 and 1", "word": "word"}
